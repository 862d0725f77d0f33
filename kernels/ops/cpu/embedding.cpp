#include "kernels/ops/checks.hpp"
#include "kernels/ops/cpu/cpu_backend.hpp"
#include "kernels/ops/cpu/vectorised.hpp"

namespace troupe {

namespace {

TROUPE_VECTORISED void look_up(const std::int32_t* tokens, const float* token_table, const float* position_table,
                               float* y, std::int64_t batch, std::int64_t sequence, std::int64_t hidden) {
  for (std::int64_t row = 0; row < batch * sequence; ++row, y += hidden) {
    const float* token = token_table + tokens[row] * hidden;
    const float* position = position_table + row % sequence * hidden;
#pragma omp simd
    for (std::int64_t j = 0; j < hidden; ++j) y[j] = token[j] + position[j];
  }
}

TROUPE_VECTORISED void add_rows(const float* dy, const std::int32_t* tokens, float* d_token_table,
                                float* d_position_table, std::int64_t batch, std::int64_t sequence,
                                std::int64_t hidden) {
  for (std::int64_t row = 0; row < batch * sequence; ++row, dy += hidden) {
    float* token = d_token_table + tokens[row] * hidden;
    float* position = d_position_table + row % sequence * hidden;
#pragma omp simd
    for (std::int64_t j = 0; j < hidden; ++j) {
      token[j] += dy[j];
      position[j] += dy[j];
    }
  }
}

}  // namespace

status cpu_backend::embedding(const tensor& tokens, const tensor& token_table, const tensor& position_table,
                              const tensor& y) {
  TROUPE_CHECK(checks::embedding("embedding", tokens, token_table, position_table, y));
  TROUPE_CHECK(checks::below("embedding", "token", tokens, token_table.dims()[0]));
  look_up(tokens.data<std::int32_t>(), token_table.data<float>(), position_table.data<float>(), y.data<float>(),
          tokens.dims()[0], tokens.dims()[1], token_table.dims()[1]);
  return {};
}

status cpu_backend::embedding_backward(const tensor& dy, const tensor& tokens, const tensor& d_token_table,
                                       const tensor& d_position_table) {
  TROUPE_CHECK(checks::embedding("embedding_backward", tokens, d_token_table, d_position_table, dy));
  TROUPE_CHECK(checks::below("embedding_backward", "token", tokens, d_token_table.dims()[0]));
  add_rows(dy.data<float>(), tokens.data<std::int32_t>(), d_token_table.data<float>(), d_position_table.data<float>(),
           tokens.dims()[0], tokens.dims()[1], d_token_table.dims()[1]);
  return {};
}

}  // namespace troupe
