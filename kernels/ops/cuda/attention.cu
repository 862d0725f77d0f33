#include <cmath>
#include <string>

#include "kernels/ops/checks.hpp"
#include "kernels/ops/cuda/attention_tiles.cuh"
#include "kernels/ops/cuda/cuda_backend.hpp"

namespace troupe {

using namespace attention_tiles;

namespace {

constexpr const char* op = "attention";

template <class Tiling>
constexpr int forward_floats = 2 * Tiling::floats + Tiling::score_floats;

// Scores of the thread become unnormalised probabilities in `shared_scores`, against the largest so far of their row;
// what was summed before is brought to that too.
template <class Tiling>
__device__ void soften(float (&scores)[Tiling::own][Tiling::own], float* shared_scores, float (&tops)[Tiling::own],
                       float (&totals)[Tiling::own], float (&sums)[Tiling::own][Tiling::columns]) {
#pragma unroll
  for (int r = 0; r < Tiling::own; ++r) {
    float top = tops[r];
#pragma unroll
    for (float score : scores[r]) top = fmaxf(top, score);
    top = reduce_lanes<edge>(top, largest_of());
    const float decay = expf(tops[r] - top);
    float total = 0;
#pragma unroll
    for (int c = 0; c < Tiling::own; ++c) {
      const float weight = expf(scores[r][c] - top);
      shared_scores[(y() + r * static_cast<int>(edge)) * Tiling::score_stride + x() + c * static_cast<int>(edge)] =
          weight;
      total += weight;
    }
    totals[r] = totals[r] * decay + reduce_lanes<edge>(total, sum_of());
    tops[r] = top;
#pragma unroll
    for (auto& sum : sums[r]) sum *= decay;
  }
}

// One block: a tile of queries of one head against all keys before them, tile by tile (arXiv:2205.14135, algorithm 1).
template <class Tiling>
__global__ void __launch_bounds__(threads_per_block)
    attend(const float* qkv, float* out, float* log_sum, head_layout head) {
  extern __shared__ float4 shared[];  // float4 for its alignment
  auto* const q_tile = reinterpret_cast<float*>(shared);
  auto* const kv_tile = q_tile + Tiling::floats;
  auto* const score_tile = kv_tile + Tiling::floats;

  const auto first = static_cast<std::int64_t>(gridDim.y - 1 - blockIdx.y) * Tiling::rows;  // the longest start first
  const float* q = qkv + head.qkv_offset(blockIdx.x);
  load<Tiling>(q_tile, q, head.qkv_stride(), first, head);

  float tops[Tiling::own], totals[Tiling::own], sums[Tiling::own][Tiling::columns];
#pragma unroll
  for (int r = 0; r < Tiling::own; ++r) {
    tops[r] = -INFINITY;
    totals[r] = 0;
#pragma unroll
    for (auto& sum : sums[r]) sum = 0;
  }
  for (std::int64_t first_key = 0; first_key <= first; first_key += Tiling::rows) {
    __syncthreads();  // the last tile has been used
    load<Tiling>(kv_tile, q + head.hidden, head.qkv_stride(), first_key, head);
    __syncthreads();
    float scores[Tiling::own][Tiling::own];
    multiply_transposed<Tiling>(scores, q_tile, kv_tile);
#pragma unroll
    for (int r = 0; r < Tiling::own; ++r)
#pragma unroll
      for (int c = 0; c < Tiling::own; ++c) {
        const auto ahead = first_key - first + x() - y() + (c - r) * static_cast<int>(edge);
        scores[r][c] = ahead <= 0 ? scores[r][c] * head.scale : -INFINITY;
      }
    soften<Tiling>(scores, score_tile, tops, totals, sums);
    __syncthreads();
    load<Tiling>(kv_tile, q + 2 * head.hidden, head.qkv_stride(), first_key, head);
    __syncthreads();
    accumulate<Tiling, false>(sums, score_tile, kv_tile);
  }
#pragma unroll
  for (int r = 0; r < Tiling::own; ++r) {
    const auto row = first + y() + r * static_cast<int>(edge);
    if (x() == 0 && row < head.sequence) log_sum[blockIdx.x * head.sequence + row] = tops[r] + logf(totals[r]);
    const float inverse = 1.0F / totals[r];
#pragma unroll
    for (auto& sum : sums[r]) sum *= inverse;
  }
  store<Tiling>(out + head.out_offset(blockIdx.x), head.hidden, first, head, sums);
}

}  // namespace

result<head_layout> attention_tiles::layout_of(const char* caller, const tensor& qkv, std::int64_t heads) {
  const auto hidden = qkv.dims()[2] / 3, width = hidden / heads;
  if (width > widest_head)
    return invalid(std::string(caller) + ": heads are " + std::to_string(width) + " elements wide, on CUDA at most " +
                   std::to_string(widest_head));
  return head_layout{qkv.dims()[1], hidden, heads, static_cast<int>(width),
                     static_cast<float>(1.0 / std::sqrt(static_cast<double>(width)))};
}

status cuda_backend::attention(const tensor& qkv, std::int64_t heads, const tensor& out, const tensor& log_sum) {
  TROUPE_CHECK(checks::attention(op, qkv, heads, out, log_sum));
  if (qkv.elements() == 0) return {};
  TROUPE_TRY(const auto head, layout_of(op, qkv, heads));
  return with_tiling(head.width, [&](auto tiles) {
    using tiling = decltype(tiles);
    const dim3 blocks(blocks_for(qkv.dims()[0] * heads, 1), blocks_for(head.sequence, tiling::rows));
    return launch_with_tiles(op, stream_, attend<tiling>, blocks, forward_floats<tiling>, qkv.data<float>(),
                             out.data<float>(), log_sum.data<float>(), head);
  });
}

}  // namespace troupe
