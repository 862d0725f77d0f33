#include "kernels/ops/checks.hpp"
#include "kernels/ops/cuda/attention_tiles.cuh"
#include "kernels/ops/cuda/cuda_backend.hpp"

namespace troupe {

using namespace attention_tiles;

namespace {

constexpr const char* op = "attention_backward";

// Two kernels, one over tiles of keys for dk and dv, one over tiles of queries for dq: each sum has one owner, so that
// its order is fixed without atomics. The price is that scores are computed twice (7 products in place of 5).

struct backward_inputs {
  const float *dout, *qkv, *out, *log_sum;
};

/// What both need of a tile of queries.
template <class Tiling>
struct query_tiles {
  float *q, *dout, *log_sums, *dots;

  static constexpr int floats = 2 * Tiling::floats + 2 * Tiling::rows;
  __device__ explicit query_tiles(float* at)
      : q(at), dout(q + Tiling::floats), log_sums(dout + Tiling::floats), dots(log_sums + Tiling::rows) {}

  /// dots: row by row Σ dout·out, which is Σ over keys of probability times its gradient (arXiv:2205.14135, app. B).
  __device__ void load(const backward_inputs& in, std::int64_t first, const head_layout& head) const {
    const auto out_offset = head.out_offset(blockIdx.x);
    attention_tiles::load<Tiling>(q, in.qkv + head.qkv_offset(blockIdx.x), head.qkv_stride(), first, head);
    attention_tiles::load<Tiling>(dout, in.dout + out_offset, head.hidden, first, head);
    const int lane = static_cast<int>(threadIdx.x % warp_size);
    for (int i = static_cast<int>(threadIdx.x / warp_size); i < Tiling::rows; i += threads_per_block / warp_size) {
      const auto row = first + i;
      const bool there = row < head.sequence;
      float dot = 0;
      if (there)
        for (int d = lane; d < head.width; d += static_cast<int>(warp_size)) {
          const auto at = out_offset + row * head.hidden + d;
          dot += in.dout[at] * in.out[at];
        }
      dot = reduce_lanes(dot, sum_of());
      if (lane == 0) {
        dots[i] = dot;
        log_sums[i] = there ? in.log_sum[blockIdx.x * head.sequence + row] : 0.0F;
      }
    }
  }
};

// The probabilities of a tile of queries and a tile of keys, and their scores' gradients times `scale`, into shared
// memory; `probabilities` may be null.
template <class Tiling>
__device__ void score_gradients(const query_tiles<Tiling>& queries, const float* k, const float* v,
                                std::int64_t first_query, std::int64_t first_key, const head_layout& head,
                                float* probabilities, float* gradients) {
  float scores[Tiling::own][Tiling::own], d_probabilities[Tiling::own][Tiling::own];
  multiply_transposed<Tiling>(scores, queries.q, k);
  multiply_transposed<Tiling>(d_probabilities, queries.dout, v);
#pragma unroll
  for (int r = 0; r < Tiling::own; ++r) {
    const int row = y() + r * static_cast<int>(edge);
#pragma unroll
    for (int c = 0; c < Tiling::own; ++c) {
      const int column = x() + c * static_cast<int>(edge);
      const bool seen = first_key + column <= first_query + row && first_query + row < head.sequence;
      const float probability = seen ? expf(scores[r][c] * head.scale - queries.log_sums[row]) : 0.0F;
      const int at = row * Tiling::score_stride + column;
      if (probabilities) probabilities[at] = probability;
      gradients[at] = seen ? probability * (d_probabilities[r][c] - queries.dots[row]) * head.scale : 0.0F;
    }
  }
}

template <class Tiling>
constexpr int backward_floats = query_tiles<Tiling>::floats + 2 * Tiling::floats + 2 * Tiling::score_floats;

template <class Tiling>
__device__ void clear(float (&sums)[Tiling::own][Tiling::columns]) {
#pragma unroll
  for (auto& row : sums)
#pragma unroll
    for (auto& sum : row) sum = 0;
}

template <class Tiling>
__global__ void __launch_bounds__(threads_per_block)
    key_value_gradients(backward_inputs in, float* dqkv, head_layout head) {
  extern __shared__ float4 shared[];
  const query_tiles<Tiling> queries(reinterpret_cast<float*>(shared));
  auto* const k = reinterpret_cast<float*>(shared) + query_tiles<Tiling>::floats;
  auto* const v = k + Tiling::floats;
  auto* const probabilities = v + Tiling::floats;
  auto* const gradients = probabilities + Tiling::score_floats;

  const auto first_key = static_cast<std::int64_t>(blockIdx.y) * Tiling::rows;  // the longest start first
  const auto offset = head.qkv_offset(blockIdx.x);
  load<Tiling>(k, in.qkv + offset + head.hidden, head.qkv_stride(), first_key, head);
  load<Tiling>(v, in.qkv + offset + 2 * head.hidden, head.qkv_stride(), first_key, head);
  float dk[Tiling::own][Tiling::columns], dv[Tiling::own][Tiling::columns];
  clear<Tiling>(dk);
  clear<Tiling>(dv);
  for (auto first = first_key; first < head.sequence; first += Tiling::rows) {
    __syncthreads();  // the last tiles have been used
    queries.load(in, first, head);
    __syncthreads();
    score_gradients<Tiling>(queries, k, v, first, first_key, head, probabilities, gradients);
    __syncthreads();
    accumulate<Tiling, true>(dv, probabilities, queries.dout);
    accumulate<Tiling, true>(dk, gradients, queries.q);
  }
  store<Tiling>(dqkv + offset + head.hidden, head.qkv_stride(), first_key, head, dk);
  store<Tiling>(dqkv + offset + 2 * head.hidden, head.qkv_stride(), first_key, head, dv);
}

template <class Tiling>
__global__ void __launch_bounds__(threads_per_block)
    query_gradients(backward_inputs in, float* dqkv, head_layout head) {
  extern __shared__ float4 shared[];
  const query_tiles<Tiling> queries(reinterpret_cast<float*>(shared));
  auto* const k = reinterpret_cast<float*>(shared) + query_tiles<Tiling>::floats;
  auto* const v = k + Tiling::floats;
  auto* const gradients = v + Tiling::floats;

  const auto first = static_cast<std::int64_t>(gridDim.y - 1 - blockIdx.y) * Tiling::rows;  // the longest start first
  const auto offset = head.qkv_offset(blockIdx.x);
  queries.load(in, first, head);
  float dq[Tiling::own][Tiling::columns];
  clear<Tiling>(dq);
  for (std::int64_t first_key = 0; first_key <= first; first_key += Tiling::rows) {
    __syncthreads();  // the last tiles have been used
    load<Tiling>(k, in.qkv + offset + head.hidden, head.qkv_stride(), first_key, head);
    load<Tiling>(v, in.qkv + offset + 2 * head.hidden, head.qkv_stride(), first_key, head);
    __syncthreads();
    score_gradients<Tiling>(queries, k, v, first, first_key, head, nullptr, gradients);
    __syncthreads();
    accumulate<Tiling, false>(dq, gradients, k);
  }
  store<Tiling>(dqkv + offset, head.qkv_stride(), first, head, dq);
}

}  // namespace

status cuda_backend::attention_backward(const tensor& dout, const tensor& qkv, const tensor& out, const tensor& log_sum,
                                        std::int64_t heads, const tensor& dqkv) {
  TROUPE_CHECK(checks::attention(op, qkv, heads, out, log_sum));
  TROUPE_CHECK(checks::is(op, "dout", dout, out.spec()));
  TROUPE_CHECK(checks::is(op, "dqkv", dqkv, qkv.spec()));
  if (qkv.elements() == 0) return {};
  TROUPE_TRY(const auto head, layout_of(op, qkv, heads));
  const backward_inputs in{dout.data<float>(), qkv.data<float>(), out.data<float>(), log_sum.data<float>()};
  return with_tiling(head.width, [&](auto tiles) -> status {
    using tiling = decltype(tiles);
    const dim3 blocks(blocks_for(qkv.dims()[0] * heads, 1), blocks_for(head.sequence, tiling::rows));
    TROUPE_CHECK(launch_with_tiles(op, stream_, key_value_gradients<tiling>, blocks, backward_floats<tiling>, in,
                                   dqkv.data<float>(), head));
    return launch_with_tiles(op, stream_, query_gradients<tiling>, blocks, backward_floats<tiling>, in,
                             dqkv.data<float>(), head);
  });
}

}  // namespace troupe
