#include "kernels/ops/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace troupe::checks {

namespace {

std::string describe(const tensor& t) { return t ? to_string(t.spec()) : "no tensor"; }

error differs(std::string_view op, std::string_view operand, const tensor& t, std::string_view expected) {
  return invalid(fmt::format("{}: {} is {}, expected {}", op, operand, describe(t), expected));
}

status matrix(std::string_view operand, const float* data, std::int64_t rows, std::int64_t columns,
              std::int64_t stride) {
  if (rows > 0 && columns > 0 && !data) return invalid(fmt::format("gemm: {} is null", operand));
  if (stride < std::max<std::int64_t>(1, columns))
    return invalid(
        fmt::format("gemm: the row stride of {} is {}, expected at least its {} columns", operand, stride, columns));
  return {};
}

status embedding_without_positions(std::string_view op, const tensor& tokens, const tensor& token_table,
                                   const tensor& y) {
  if (!tokens || tokens.type() != dtype::i32 || tokens.dims().rank() != 2)
    return differs(op, "tokens", tokens, "i32 [B, S]");
  if (!token_table || token_table.type() != dtype::f32 || token_table.dims().rank() != 2)
    return differs(op, "token_table", token_table, "f32 [V, H]");
  return is(op, "y", y, {dtype::f32, {tokens.dims()[0], tokens.dims()[1], token_table.dims()[1]}});
}

status inside(std::string_view op, const vocabulary_slice& slice, std::int64_t room) {
  if (slice.first < 0 || slice.count < 0 || slice.first + slice.count > slice.total || slice.count > room)
    return invalid(
        fmt::format("{}: {} classes from {} of {} in a table of {}", op, slice.count, slice.first, slice.total, room));
  return {};
}

// Logits f32 [rows, at least slice.count], and vectors over their rows: name, tensor, type, how many a row.
status sliced(std::string_view op, const tensor& logits, const vocabulary_slice& slice,
              std::initializer_list<std::tuple<std::string_view, const tensor*, dtype, int>> of_rows) {
  TROUPE_CHECK(is(op, "logits", logits, dtype::f32));
  TROUPE_CHECK(inside(op, slice, logits.dims().back()));
  for (const auto& [name, t, type, times] : of_rows)
    TROUPE_CHECK(has(op, name, *t, type, times * logits.dims().rows()));
  return {};
}

}  // namespace

status is(std::string_view op, std::string_view operand, const tensor& t, dtype type) {
  if (!t || t.type() != type) return differs(op, operand, t, fmt::format("{} elements", to_string(type)));
  return {};
}

status is(std::string_view op, std::string_view operand, const tensor& t, const tensor_spec& spec) {
  if (!t || t.spec() != spec) return differs(op, operand, t, to_string(spec));
  return {};
}

status has(std::string_view op, std::string_view operand, const tensor& t, dtype type, std::int64_t elements) {
  if (!t || t.type() != type || t.elements() != elements)
    return differs(op, operand, t, fmt::format("{} {} in all", elements, to_string(type)));
  return {};
}

status gemm(const gemm_args& args) {
  if (args.m < 0 || args.n < 0 || args.k < 0)
    return invalid(fmt::format("gemm: m, n, k are {}, {}, {}, expected none below 0", args.m, args.n, args.k));
  TROUPE_CHECK(matrix("a", args.a, args.transpose_a ? args.k : args.m, args.transpose_a ? args.m : args.k, args.lda));
  TROUPE_CHECK(matrix("b", args.b, args.transpose_b ? args.n : args.k, args.transpose_b ? args.k : args.n, args.ldb));
  return matrix("c", args.c, args.m, args.n, args.ldc);
}

status rows_and_vector(std::string_view op, std::string_view rows_name, const tensor& rows,
                       std::string_view vector_name, const tensor& vector) {
  TROUPE_CHECK(is(op, rows_name, rows, dtype::f32));
  return is(op, vector_name, vector, {dtype::f32, {rows.dims().back()}});
}

status same(std::string_view op, std::initializer_list<std::pair<std::string_view, const tensor*>> operands) {
  const auto& first = *operands.begin();
  TROUPE_CHECK(is(op, first.first, *first.second, dtype::f32));
  for (const auto& [name, t] : operands) TROUPE_CHECK(is(op, name, *t, first.second->spec()));
  return {};
}

status attention(std::string_view op, const tensor& qkv, std::int64_t heads, const tensor& out, const tensor& log_sum) {
  if (!qkv || qkv.type() != dtype::f32 || qkv.dims().rank() != 3 || qkv.dims()[2] % 3 != 0)
    return differs(op, "qkv", qkv, "f32 [B, S, 3·H]");
  const auto batch = qkv.dims()[0], sequence = qkv.dims()[1], hidden = qkv.dims()[2] / 3;
  if (heads < 1 || hidden % heads != 0)
    return invalid(fmt::format("{}: {} heads do not divide the hidden size {}", op, heads, hidden));
  TROUPE_CHECK(is(op, "out", out, {dtype::f32, {batch, sequence, hidden}}));
  return is(op, "log_sum", log_sum, {dtype::f32, {batch, heads, sequence}});
}

status embedding(std::string_view op, const tensor& tokens, const tensor& token_table, const tensor& position_table,
                 const tensor& y) {
  TROUPE_CHECK(embedding_without_positions(op, tokens, token_table, y));
  const auto sequence = tokens.dims()[1], hidden = token_table.dims()[1];
  if (!position_table || position_table.type() != dtype::f32 || position_table.dims().rank() != 2 ||
      position_table.dims()[0] < sequence || position_table.dims()[1] != hidden)
    return differs(op, "position_table", position_table, fmt::format("f32 [at least {}, {}]", sequence, hidden));
  return {};
}

status embedding_slice(std::string_view op, const tensor& tokens, const vocabulary_slice& slice,
                       const tensor& token_table, const tensor& position_table, const tensor& y) {
  TROUPE_CHECK(position_table ? embedding(op, tokens, token_table, position_table, y)
                              : embedding_without_positions(op, tokens, token_table, y));
  return inside(op, slice, token_table.dims()[0]);
}

status cross_entropy_peaks(const tensor& logits, const vocabulary_slice& slice, const tensor& peaks) {
  return sliced("cross_entropy_peaks", logits, slice, {{"peaks", &peaks, dtype::f32, 1}});
}

status cross_entropy_sums(const tensor& logits, const vocabulary_slice& slice, const tensor& targets,
                          const tensor& peaks, const tensor& sums) {
  return sliced(
      "cross_entropy_sums", logits, slice,
      {{"targets", &targets, dtype::i32, 1}, {"peaks", &peaks, dtype::f32, 1}, {"sums", &sums, dtype::f32, 2}});
}

status cross_entropy_gradient(const tensor& logits, const vocabulary_slice& slice, const tensor& targets,
                              const tensor& sums, const tensor& loss) {
  TROUPE_CHECK(sliced("cross_entropy_gradient", logits, slice,
                      {{"targets", &targets, dtype::i32, 1}, {"sums", &sums, dtype::f32, 2}}));
  return has("cross_entropy_gradient", "loss", loss, dtype::f32, 1);
}

status cross_entropy(const tensor& logits, const tensor& targets, const tensor& loss) {
  TROUPE_CHECK(is("cross_entropy", "logits", logits, dtype::f32));
  TROUPE_CHECK(has("cross_entropy", "targets", targets, dtype::i32, logits.dims().rows()));
  return has("cross_entropy", "loss", loss, dtype::f32, 1);
}

status adamw(const adamw_args& args, const tensor& parameter, const tensor& gradient, const tensor& moment1,
             const tensor& moment2) {
  if (args.step < 1) return invalid(fmt::format("adamw: step is {}, expected 1 or more", args.step));
  TROUPE_CHECK(is("adamw", "parameter", parameter, dtype::f32));
  TROUPE_CHECK(has("adamw", "gradient", gradient, dtype::f32, parameter.elements()));
  TROUPE_CHECK(has("adamw", "moment1", moment1, dtype::f32, parameter.elements()));
  return has("adamw", "moment2", moment2, dtype::f32, parameter.elements());
}

status copy(const tensor& from, const tensor& to) {
  if (!from || !to || from.bytes() != to.bytes())
    return invalid(fmt::format("copy: from is {} and to is {}, expected equal bytes", describe(from), describe(to)));
  return {};
}

status below(std::string_view op, std::string_view operand, const tensor& host_indices, std::int64_t limit) {
  const auto values = host_indices.values<std::int32_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] < 0 || values[i] >= limit)
      return invalid(fmt::format("{}: {} {} at place {} is outside [0, {})", op, operand, values[i], i, limit));
  return {};
}

}  // namespace troupe::checks
