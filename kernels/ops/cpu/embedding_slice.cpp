#include "kernels/ops/checks.hpp"
#include "kernels/ops/cpu/cpu_backend.hpp"
#include "kernels/ops/cpu/vectorised.hpp"

namespace troupe {

namespace {

TROUPE_VECTORISED void look_up(const std::int32_t* tokens, const float* table, const float* positions, float* y,
                               std::int64_t rows, std::int64_t sequence, std::int64_t hidden,
                               const vocabulary_slice& slice) {
  for (std::int64_t row = 0; row < rows; ++row, y += hidden) {
    const auto token = tokens[row] - slice.first;
    const bool here = token >= 0 && token < slice.count;
    const float* from = table + (here ? token : 0) * hidden;
    const float* position = positions + (positions ? row % sequence * hidden : 0);
#pragma omp simd
    for (std::int64_t j = 0; j < hidden; ++j) y[j] = (here ? from[j] : 0.0F) + (positions ? position[j] : 0.0F);
  }
}

TROUPE_VECTORISED void add_rows(const float* dy, const std::int32_t* tokens, float* d_table, float* d_positions,
                                std::int64_t rows, std::int64_t sequence, std::int64_t hidden,
                                const vocabulary_slice& slice) {
  for (std::int64_t row = 0; row < rows; ++row, dy += hidden) {
    float* position = d_positions + row % sequence * hidden;
#pragma omp simd
    for (std::int64_t j = 0; j < hidden; ++j) position[j] += dy[j];
    const auto token = tokens[row] - slice.first;
    if (token < 0 || token >= slice.count) continue;
    float* to = d_table + token * hidden;
#pragma omp simd
    for (std::int64_t j = 0; j < hidden; ++j) to[j] += dy[j];
  }
}

}  // namespace

status cpu_backend::embedding_slice(const tensor& tokens, const vocabulary_slice& slice, const tensor& token_table,
                                    const tensor& position_table, const tensor& y) {
  constexpr auto op = "embedding_slice";
  TROUPE_CHECK(checks::embedding_slice(op, tokens, slice, token_table, position_table, y));
  TROUPE_CHECK(checks::below(op, "token", tokens, slice.total));
  look_up(tokens.data<std::int32_t>(), token_table.data<float>(),
          position_table ? position_table.data<float>() : nullptr, y.data<float>(), tokens.elements(), tokens.dims()[1],
          token_table.dims()[1], slice);
  return {};
}

status cpu_backend::embedding_slice_backward(const tensor& dy, const tensor& tokens, const vocabulary_slice& slice,
                                             const tensor& d_token_table, const tensor& d_position_table) {
  constexpr auto op = "embedding_slice_backward";
  TROUPE_CHECK(checks::embedding_slice(op, tokens, slice, d_token_table, d_position_table, dy));
  TROUPE_CHECK(checks::below(op, "token", tokens, slice.total));
  add_rows(dy.data<float>(), tokens.data<std::int32_t>(), d_token_table.data<float>(), d_position_table.data<float>(),
           tokens.elements(), tokens.dims()[1], d_token_table.dims()[1], slice);
  return {};
}

}  // namespace troupe
