#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

#include "kernels/ops/backend.hpp"

/// What every backend demands of an operation's operands, before it touches a byte. Each returns `invalid_argument`
/// with the operation, the operand, what it is and what it should be: "layer_norm: gamma is f32 [5], expected f32 [8]".
namespace troupe::checks {

/// A tensor that was made and is of that type.
status is(std::string_view op, std::string_view operand, const tensor& t, dtype type);
/// A tensor of exactly that type and those extents.
status is(std::string_view op, std::string_view operand, const tensor& t, const tensor_spec& spec);
/// A tensor of that type and so many elements, whatever its extents.
status has(std::string_view op, std::string_view operand, const tensor& t, dtype type, std::int64_t elements);

status gemm(const gemm_args& args);
/// `y` f32 [..., n] and `bias` f32 [n], under the names of the calling operation.
status rows_and_vector(std::string_view op, std::string_view rows_name, const tensor& rows,
                       std::string_view vector_name, const tensor& vector);
/// All f32 of the extents of the first.
status same(std::string_view op, std::initializer_list<std::pair<std::string_view, const tensor*>> operands);
status attention(std::string_view op, const tensor& qkv, std::int64_t heads, const tensor& out, const tensor& log_sum);
status embedding(std::string_view op, const tensor& tokens, const tensor& token_table, const tensor& position_table,
                 const tensor& y);
/// `table` holds at least the slice's classes; `position_table` may be empty.
status embedding_slice(std::string_view op, const tensor& tokens, const vocabulary_slice& slice,
                       const tensor& token_table, const tensor& position_table, const tensor& y);
status cross_entropy(const tensor& logits, const tensor& targets, const tensor& loss);
/// The three parts of a cross-entropy over shards.
status cross_entropy_peaks(const tensor& logits, const vocabulary_slice& slice, const tensor& peaks);
status cross_entropy_sums(const tensor& logits, const vocabulary_slice& slice, const tensor& targets,
                          const tensor& peaks, const tensor& sums);
status cross_entropy_gradient(const tensor& logits, const vocabulary_slice& slice, const tensor& targets,
                              const tensor& sums, const tensor& loss);
status adamw(const adamw_args& args, const tensor& parameter, const tensor& gradient, const tensor& moment1,
             const tensor& moment2);
status copy(const tensor& from, const tensor& to);

/// Host values all inside [0, limit); the first that is not is named with its place.
status below(std::string_view op, std::string_view operand, const tensor& host_indices, std::int64_t limit);

}  // namespace troupe::checks
