#include <limits>

#include "op_bench.hpp"

using namespace troupe;

TEST_CASE("cross_entropy and its gradient equal the f64 definition and its central differences", "[ops]") {
  op_bench bench;
  const std::int64_t rows = GENERATE(1, 3, 10), vocabulary = GENERATE(1, 2, 31, 64, 101);
  const float scale = GENERATE(1.0F, 0.125F);
  CAPTURE(rows, vocabulary, scale);
  auto logits = bench.uniform({rows, vocabulary}, -4, 4);
  const auto targets = bench.indices({rows}, static_cast<std::int32_t>(vocabulary)), loss = bench.filled({1}, 77);
  const auto wide = widen(logits);
  const auto picked = indices_of(targets);
  REQUIRE(bench.ops->cross_entropy(logits, targets, scale, loss));
  const auto expected = [&](const reference::array& at) { return scale * reference::cross_entropy(at, picked); };
  CHECK(*loss.data<float>() == Approx(expected(wide)).epsilon(1e-6).margin(1e-7));
  const auto gradient = reference::gradient(expected, wide);
  for (std::size_t i = 0; i < gradient.size(); ++i)
    CHECK(logits.values<float>()[i] == Approx(gradient[i]).margin(3e-7 * scale));
}

TEST_CASE("cross_entropy of logits far apart is their distance, with no overflow", "[ops]") {
  op_bench bench;
  auto logits = bench.filled({1, 3}, -500);
  logits.data<float>()[1] = 500;
  auto target = bench.indices({1}, 1);
  const auto loss = bench.make({1});
  REQUIRE(bench.ops->cross_entropy(logits, target, 1, loss));
  CHECK(*loss.data<float>() == 1000.0F);
  CHECK(widen(logits) == reference::array{-1, 1, 0});
}

TEST_CASE("a NaN logit makes the loss NaN", "[ops]") {
  op_bench bench;
  auto logits = bench.uniform({2, 40});
  logits.data<float>()[17] = std::numeric_limits<float>::quiet_NaN();
  const auto loss = bench.make({1});
  REQUIRE(bench.ops->cross_entropy(logits, bench.indices({2}, 40), 1, loss));
  CHECK(std::isnan(*loss.data<float>()));
}

TEST_CASE("cross_entropy refuses a target outside the vocabulary, leaving the logits as they were", "[ops]") {
  op_bench bench;
  const auto logits = bench.uniform({4, 10});
  const auto before = bits(logits);
  auto targets = bench.indices({4}, 10);
  const auto loss = bench.make({1});
  targets.data<std::int32_t>()[2] = 10;
  CHECK(text_of(bench.ops->cross_entropy(logits, targets, 1, loss)) ==
        "cross_entropy: target 10 at place 2 is outside [0, 10)");
  targets.data<std::int32_t>()[2] = -1;
  CHECK(text_of(bench.ops->cross_entropy(logits, targets, 1, loss)) ==
        "cross_entropy: target -1 at place 2 is outside [0, 10)");
  CHECK(text_of(bench.ops->cross_entropy(logits, bench.indices({3}, 10), 1, loss)) ==
        "cross_entropy: targets is i32 [3], expected 4 i32 in all");
  CHECK(text_of(bench.ops->cross_entropy(logits, targets, 1, logits)) ==
        "cross_entropy: loss is f32 [4, 10], expected 1 f32 in all");
  CHECK(bits(logits) == before);
}

TEST_CASE("squared_error and its gradient equal the f64 definition and its central differences", "[ops]") {
  op_bench bench;
  const std::int64_t n = GENERATE(1, 33, 1000);
  auto y = bench.uniform({n, 2});
  const auto target = bench.uniform({n, 2}), loss = bench.make({1});
  const auto at = widen(y);
  REQUIRE(bench.ops->squared_error(y, target, 0.25F, loss));
  const auto expected = [&](const reference::array& v) { return 0.25 * reference::squared_error(v, widen(target)); };
  CHECK(*loss.data<float>() == Approx(expected(at)).epsilon(1e-6));
  if (n < 100) CHECK(deviation(y, reference::gradient(expected, at)) < 1e-6);
  CHECK(text_of(bench.ops->squared_error(y, loss, 1, loss))
            .starts_with("squared_error: target is f32 [1], expected f32 ["));
}
