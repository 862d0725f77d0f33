#include "op_bench.hpp"

using namespace troupe;

namespace {

constexpr float epsilon = 1e-5F;

struct norm_case {
  tensor x, gamma, beta, dy, y, mean, rstd;
  norm_case(op_bench& bench, std::int64_t rows, std::int64_t n)
      : x(bench.uniform({rows, n}, -2, 3)),
        gamma(bench.uniform({n})),
        beta(bench.uniform({n})),
        dy(bench.uniform({rows, n})),
        y(bench.make({rows, n})),
        mean(bench.make({rows})),
        rstd(bench.make({rows})) {
    REQUIRE(bench.ops->layer_norm(x, gamma, beta, epsilon, y, mean, rstd));
  }
  double loss(const reference::array& at_x, const reference::array& at_gamma, const reference::array& at_beta) const {
    return reference::weighted(widen(dy), reference::layer_norm(at_x, at_gamma, at_beta, epsilon));
  }
};

}  // namespace

TEST_CASE("layer_norm equals its f64 definition, and its backward the central differences of that", "[ops]") {
  op_bench bench;
  const std::int64_t rows = GENERATE(1, 5), n = GENERATE(2, 7, 32, 45, 97);
  CAPTURE(rows, n);
  norm_case c(bench, rows, n);
  const auto x = widen(c.x), gamma = widen(c.gamma), beta = widen(c.beta);
  CHECK(deviation(c.y, reference::layer_norm(x, gamma, beta, epsilon)) < 2e-6);

  const auto dx = bench.make({rows, n}), dgamma = bench.filled({n}, 0.5F), dbeta = bench.filled({n}, 0.25F);
  REQUIRE(bench.ops->layer_norm_backward_input(c.dy, c.x, c.gamma, c.mean, c.rstd, dx, {}));
  REQUIRE(bench.ops->layer_norm_backward_weight(c.dy, c.x, c.mean, c.rstd, dgamma, dbeta));
  auto expected_dgamma = reference::gradient([&](const auto& v) { return c.loss(x, v, beta); }, gamma);
  auto expected_dbeta = reference::gradient([&](const auto& v) { return c.loss(x, gamma, v); }, beta);
  for (auto& v : expected_dgamma) v += 0.5;
  for (auto& v : expected_dbeta) v += 0.25;
  // Two elements normalise to ±1 whatever they are: dx vanishes and only rounding is left of it.
  if (n > 2) CHECK(deviation(dx, reference::gradient([&](const auto& v) { return c.loss(v, gamma, beta); }, x)) < 1e-5);
  CHECK(deviation(dgamma, expected_dgamma) < 2e-6);
  CHECK(deviation(dbeta, expected_dbeta) < 2e-6);
}

TEST_CASE("layer_norm's input gradient joins the residual branch and may replace dy, bit for bit", "[ops]") {
  op_bench bench;
  norm_case c(bench, 3, 41);
  const auto branch = bench.uniform({3, 41}), dx = bench.make({3, 41}), joined = bench.make({3, 41});
  REQUIRE(bench.ops->layer_norm_backward_input(c.dy, c.x, c.gamma, c.mean, c.rstd, dx, {}));
  REQUIRE(bench.ops->layer_norm_backward_input(c.dy, c.x, c.gamma, c.mean, c.rstd, joined, branch));
  auto expected = widen(dx);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += widen(branch)[i];
  CHECK(deviation(joined, expected) < 1e-6);

  const auto in_place = bench.duplicate(c.dy), onto_branch = bench.duplicate(branch);
  REQUIRE(bench.ops->layer_norm_backward_input(in_place, c.x, c.gamma, c.mean, c.rstd, in_place, branch));
  CHECK(bits(in_place) == bits(joined));
  REQUIRE(bench.ops->layer_norm_backward_input(c.dy, c.x, c.gamma, c.mean, c.rstd, onto_branch, onto_branch));
  CHECK(bits(onto_branch) == bits(joined));
}

TEST_CASE("layer_norm may write over its input, bit for bit", "[ops]") {
  op_bench bench;
  norm_case c(bench, 4, 50);
  const auto x = bench.duplicate(c.x);
  REQUIRE(bench.ops->layer_norm(x, c.gamma, c.beta, epsilon, x, c.mean, c.rstd));
  CHECK(bits(x) == bits(c.y));
}

TEST_CASE("layer_norm keeps its accuracy far from zero", "[ops]") {
  op_bench bench;
  auto x = bench.uniform({1, 300});
  for (auto& v : x.values<float>()) v += 1000.0F;
  const auto gamma = bench.filled({300}, 1), beta = bench.filled({300}, 0), mean = bench.make({1}),
             rstd = bench.make({1});
  const auto expected = reference::layer_norm(widen(x), widen(gamma), widen(beta), epsilon);
  REQUIRE(bench.ops->layer_norm(x, gamma, beta, epsilon, x, mean, rstd));
  CHECK(deviation(x, expected) < 2e-4);  // the input's own spacing is 6e-5
}

TEST_CASE("layer_norm names the operand that does not fit", "[ops]") {
  op_bench bench;
  const auto x = bench.make({2, 8}), gamma = bench.make({8}), rows = bench.make({2});
  CHECK(text_of(bench.ops->layer_norm(x, bench.make({5}), gamma, epsilon, x, rows, rows)) ==
        "layer_norm: gamma is f32 [5], expected f32 [8]");
  CHECK(text_of(bench.ops->layer_norm(x, gamma, gamma, epsilon, x, gamma, rows)) ==
        "layer_norm: mean is f32 [8], expected 2 f32 in all");
  CHECK(text_of(bench.ops->layer_norm_backward_input(x, x, gamma, rows, rows, x, gamma)) ==
        "layer_norm_backward_input: add_to is f32 [8], expected f32 [2, 8]");
  CHECK(text_of(bench.ops->layer_norm_backward_weight(x, x, rows, rows, gamma, rows)) ==
        "layer_norm_backward_weight: dbeta is f32 [2], expected f32 [8]");
}
