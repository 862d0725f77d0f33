#pragma once

#include "kernels/core/tensor.hpp"
#include "kernels/ops/cuda/launch.cuh"

/// The gradients of embedding tables, for a whole vocabulary and for one shard's part of it.
namespace troupe {

// A token's first occurrence adds all its rows, in ascending order: no atomics, no sort, and the CPU's bits. One block
// for each place and 256 columns; most blocks are no first occurrence and end at once.
static __global__ void add_token_rows_of_slice(const float* dy, const std::int32_t* tokens, float* table,
                                               std::int64_t rows, std::int64_t hidden, std::int64_t first_class,
                                               std::int64_t classes) {
  constexpr unsigned warps = threads_per_block / warp_size;
  __shared__ unsigned matches[warps];
  const std::int64_t first = blockIdx.x;
  const auto column = static_cast<std::int64_t>(blockIdx.y) * threads_per_block + threadIdx.x;
  const auto token = tokens[first];
  const auto place = token - first_class;
  if (place < 0 || place >= classes) return;
  bool occurred = false;
  for (std::int64_t i = threadIdx.x; i < first && !occurred; i += threads_per_block) occurred = tokens[i] == token;
  if (__syncthreads_or(occurred)) return;

  float sum = column < hidden ? table[place * hidden + column] : 0;
  for (auto base = first; base < rows; base += threads_per_block) {
    const auto i = base + threadIdx.x;
    const unsigned found = __ballot_sync(0xffffffffU, i < rows && tokens[i] == token);
    if (threadIdx.x % warp_size == 0) matches[threadIdx.x / warp_size] = found;
    __syncthreads();
    for (unsigned warp = 0; warp < warps; ++warp)
      for (unsigned left = matches[warp]; left != 0; left &= left - 1) {
        const auto row = base + warp * warp_size + static_cast<unsigned>(__ffs(static_cast<int>(left)) - 1);
        if (column < hidden) sum += dy[row * hidden + column];
      }
    __syncthreads();
  }
  if (column < hidden) table[place * hidden + column] = sum;
}

/// table[token − first_class] += that token's rows of dy, for tokens of the slice.
inline status add_token_rows(const char* op, const cuda_stream& stream, const tensor& dy, const tensor& tokens,
                             const tensor& table, std::int64_t first_class, std::int64_t classes) {
  const auto rows = tokens.elements(), hidden = table.dims()[1];
  const dim3 blocks(blocks_for(rows, 1), blocks_for(hidden, threads_per_block));
  return launch(op, stream, add_token_rows_of_slice, blocks, threads_per_block, 0, dy.data<float>(),
                tokens.data<std::int32_t>(), table.data<float>(), rows, hidden, first_class, classes);
}

/// table[s] += dy[b, s], batches in ascending order.
inline status add_position_rows(const char* op, const cuda_stream& stream, const tensor& dy, const tensor& tokens,
                                const tensor& table) {
  const auto size = tokens.dims()[1] * table.dims()[1];
  return for_each(
      op, stream, size,
      [dy = dy.data<float>(), table = table.data<float>(), batch = tokens.dims()[0], size] __device__(std::int64_t i) {
        float sum = table[i];
        for (std::int64_t b = 0; b < batch; ++b) sum += dy[b * size + i];
        table[i] = sum;
      });
}

}  // namespace troupe
