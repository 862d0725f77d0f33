#include "kernels/ops/checks.hpp"
#include "kernels/ops/cuda/cuda_backend.hpp"
#include "kernels/ops/cuda/embedding_rows.cuh"

namespace troupe {

status cuda_backend::embedding_slice(const tensor& tokens, const vocabulary_slice& slice, const tensor& token_table,
                                     const tensor& position_table, const tensor& y) {
  constexpr auto op = "embedding_slice";
  TROUPE_CHECK(checks::embedding_slice(op, tokens, slice, token_table, position_table, y));
  TROUPE_CHECK(expect_below(checked_indices::embedding_token, tokens, slice.total));
  const auto sequence = tokens.dims()[1], hidden = token_table.dims()[1];
  return for_each(op, stream_, y.elements(),
                  [y = y.data<float>(), tokens = tokens.data<std::int32_t>(), table = token_table.data<float>(),
                   positions = position_table ? position_table.data<float>() : nullptr, sequence, hidden,
                   slice] __device__(std::int64_t i) {
                    const auto row = i / hidden, column = i % hidden;
                    const auto token = tokens[row] - slice.first;
                    const bool here = token >= 0 && token < slice.count;
                    y[i] = (here ? table[token * hidden + column] : 0.0F) +
                           (positions ? positions[row % sequence * hidden + column] : 0.0F);
                  });
}

status cuda_backend::embedding_slice_backward(const tensor& dy, const tensor& tokens, const vocabulary_slice& slice,
                                              const tensor& d_token_table, const tensor& d_position_table) {
  constexpr auto op = "embedding_slice_backward";
  TROUPE_CHECK(checks::embedding_slice(op, tokens, slice, d_token_table, d_position_table, dy));
  TROUPE_CHECK(expect_below(checked_indices::embedding_backward_token, tokens, slice.total));
  TROUPE_CHECK(add_token_rows(op, stream_, dy, tokens, d_token_table, slice.first, slice.count));
  return add_position_rows(op, stream_, dy, tokens, d_position_table);
}

}  // namespace troupe
