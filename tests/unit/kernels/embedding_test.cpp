#include "op_bench.hpp"

using namespace troupe;

TEST_CASE("embedding equals its f64 definition, and its backward the central differences of that", "[ops]") {
  op_bench bench;
  const std::int64_t batch = GENERATE(1, 3), sequence = GENERATE(1, 6), hidden = GENERATE(1, 5, 33);
  CAPTURE(batch, sequence, hidden);
  const auto tokens = bench.indices({batch, sequence}, 4);  // so few that some occur twice
  const auto table = bench.uniform({4, hidden}), positions = bench.uniform({sequence + 2, hidden});
  const auto y = bench.make({batch, sequence, hidden}), dy = bench.uniform({batch, sequence, hidden});
  const auto d_table = bench.filled({4, hidden}, 1), d_positions = bench.filled({sequence + 2, hidden}, -1);
  REQUIRE(bench.ops->embedding(tokens, table, positions, y));
  REQUIRE(bench.ops->embedding_backward(dy, tokens, d_table, d_positions));

  const auto expected = [&](const reference::array& t, const reference::array& p) {
    return reference::embedding(indices_of(tokens), t, p, static_cast<std::size_t>(sequence),
                                static_cast<std::size_t>(hidden));
  };
  const auto t = widen(table), p = widen(positions);
  CHECK(deviation(y, expected(t, p)) < 1e-7);
  auto dt = reference::gradient([&](const auto& v) { return reference::weighted(widen(dy), expected(v, p)); }, t);
  auto dp = reference::gradient([&](const auto& v) { return reference::weighted(widen(dy), expected(t, v)); }, p);
  for (auto& v : dt) v += 1;
  for (auto& v : dp) v -= 1;
  CHECK(deviation(d_table, dt) < 1e-6);
  CHECK(deviation(d_positions, dp) < 1e-6);
}

TEST_CASE("embedding names the token outside its table and the operand that does not fit", "[ops]") {
  op_bench bench;
  auto tokens = bench.indices({2, 3}, 7);
  const auto table = bench.uniform({7, 4}), positions = bench.uniform({3, 4}), y = bench.make({2, 3, 4});
  CHECK(text_of(bench.ops->embedding(tokens, table, bench.make({2, 4}), y)) ==
        "embedding: position_table is f32 [2, 4], expected f32 [at least 3, 4]");
  CHECK(text_of(bench.ops->embedding(tokens, table, positions, table)) ==
        "embedding: y is f32 [7, 4], expected f32 [2, 3, 4]");
  CHECK(text_of(bench.ops->embedding(y, table, positions, y)) ==
        "embedding: tokens is f32 [2, 3, 4], expected i32 [B, S]");
  tokens.data<std::int32_t>()[4] = 7;
  CHECK(text_of(bench.ops->embedding(tokens, table, positions, y)) ==
        "embedding: token 7 at place 4 is outside [0, 7)");
  tokens.data<std::int32_t>()[4] = -3;
  const auto before = bits(table);
  CHECK(text_of(bench.ops->embedding_backward(y, tokens, table, positions)) ==
        "embedding_backward: token -3 at place 4 is outside [0, 7)");
  CHECK(bits(table) == before);
}
