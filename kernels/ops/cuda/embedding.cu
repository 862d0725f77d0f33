#include "kernels/ops/checks.hpp"
#include "kernels/ops/cuda/cuda_backend.hpp"
#include "kernels/ops/cuda/embedding_rows.cuh"

namespace troupe {

namespace {

// One block a row of y.
__global__ void look_up(const std::int32_t* tokens, const float* token_table, const float* position_table, float* y,
                        std::int64_t sequence, std::int64_t hidden, std::int64_t vocabulary) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t token = tokens[row] >= 0 && tokens[row] < vocabulary ? tokens[row] : 0;
  const auto position = row % sequence;
  for (std::int64_t j = threadIdx.x; j < hidden; j += threads_per_block)
    y[row * hidden + j] = token_table[token * hidden + j] + position_table[position * hidden + j];
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
  TROUPE_CHECK(add_token_rows(op, stream_, dy, tokens, d_token_table, 0, d_token_table.dims()[0]));
  return add_position_rows(op, stream_, dy, tokens, d_position_table);
}

}  // namespace troupe
