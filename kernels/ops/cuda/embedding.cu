#include "kernels/ops/checks.hpp"
#include "kernels/ops/cuda/cuda_backend.hpp"
#include "kernels/ops/cuda/launch.cuh"

namespace troupe {

namespace {

__device__ bool inside(std::int32_t token, std::int64_t vocabulary) { return token >= 0 && token < vocabulary; }

// One block a row of y.
__global__ void look_up(const std::int32_t* tokens, const float* token_table, const float* position_table, float* y,
                        std::int64_t sequence, std::int64_t hidden, std::int64_t vocabulary) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t token = inside(tokens[row], vocabulary) ? tokens[row] : 0;
  const auto position = row % sequence;
  for (std::int64_t j = threadIdx.x; j < hidden; j += threads_per_block)
    y[row * hidden + j] = token_table[token * hidden + j] + position_table[position * hidden + j];
}

// A token's first occurrence adds all its rows, in ascending order: no atomics, no sort, and the CPU's bits. One block
// for each place and 256 columns; most blocks are no first occurrence and end at once.
__global__ void add_token_rows(const float* dy, const std::int32_t* tokens, float* table, std::int64_t rows,
                               std::int64_t hidden, std::int64_t vocabulary) {
  constexpr unsigned warps = threads_per_block / warp_size;
  __shared__ unsigned matches[warps];
  const std::int64_t first = blockIdx.x;
  const auto column = static_cast<std::int64_t>(blockIdx.y) * threads_per_block + threadIdx.x;
  const auto token = tokens[first];
  if (!inside(token, vocabulary)) return;
  bool occurred = false;
  for (std::int64_t i = threadIdx.x; i < first && !occurred; i += threads_per_block) occurred = tokens[i] == token;
  if (__syncthreads_or(occurred)) return;

  float sum = column < hidden ? table[token * hidden + column] : 0;
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
  if (column < hidden) table[token * hidden + column] = sum;
}

}  // namespace

status cuda_backend::embedding(const tensor& tokens, const tensor& token_table, const tensor& position_table,
                               const tensor& y) {
  TROUPE_CHECK(checks::embedding("embedding", tokens, token_table, position_table, y));
  TROUPE_CHECK(expect_below(checked_indices::embedding_token, tokens, token_table.dims()[0]));
  return launch("embedding", stream_, look_up, blocks_for(tokens.elements(), 1), threads_per_block, 0,
                tokens.data<std::int32_t>(), token_table.data<float>(), position_table.data<float>(), y.data<float>(),
                tokens.dims()[1], token_table.dims()[1], token_table.dims()[0]);
}

status cuda_backend::embedding_backward(const tensor& dy, const tensor& tokens, const tensor& d_token_table,
                                        const tensor& d_position_table) {
  constexpr auto op = "embedding_backward";
  TROUPE_CHECK(checks::embedding(op, tokens, d_token_table, d_position_table, dy));
  TROUPE_CHECK(expect_below(checked_indices::embedding_backward_token, tokens, d_token_table.dims()[0]));
  const auto rows = tokens.elements(), sequence = tokens.dims()[1], hidden = d_token_table.dims()[1];
  const dim3 blocks(blocks_for(rows, 1), blocks_for(hidden, threads_per_block));
  TROUPE_CHECK(launch(op, stream_, add_token_rows, blocks, threads_per_block, 0, dy.data<float>(),
                      tokens.data<std::int32_t>(), d_token_table.data<float>(), rows, hidden, d_token_table.dims()[0]));
  return for_each(op, stream_, sequence * hidden,
                  [dy = dy.data<float>(), table = d_position_table.data<float>(), batch = tokens.dims()[0],
                   size = sequence * hidden] __device__(std::int64_t i) {
                    float sum = table[i];
                    for (std::int64_t b = 0; b < batch; ++b) sum += dy[b * size + i];
                    table[i] = sum;
                  });
}

}  // namespace troupe
