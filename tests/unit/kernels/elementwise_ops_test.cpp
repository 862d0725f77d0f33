#include <cmath>
#include <limits>

#include "kernels/ops/cpu/exponential.hpp"
#include "op_bench.hpp"

using namespace troupe;

namespace {

// Distance in units of the expected value's last place.
double ulps(float got, double expected) {
  const auto nearest = static_cast<float>(std::abs(expected));
  return std::abs(got - expected) / (std::nextafter(nearest, std::numeric_limits<float>::infinity()) - nearest);
}

}  // namespace

TEST_CASE("the exponential is within 2 units in the last place over its whole range", "[ops]") {
  double worst = 0;
  for (float x = -87.3F; x < 88.7F; x += 0.00137F)
    worst = std::max(worst, ulps(exponential(x), std::exp(static_cast<double>(x))));
  CHECK(worst < 2.0);
}

TEST_CASE("the exponential of 0 is 1, of the far ends 0 and infinity, and of NaN NaN", "[ops]") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(exponential(0.0F) == 1.0F);
  CHECK(exponential(-0.0F) == 1.0F);
  CHECK(exponential(-88.0F) == 0.0F);
  CHECK(exponential(-infinity) == 0.0F);
  CHECK(exponential(88.0F) > 1.6e38F);
  CHECK(exponential(89.5F) == infinity);
  CHECK(exponential(infinity) == infinity);
  CHECK(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::isnan(exponential(-std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("gelu equals its f64 definition, and its backward the central differences of that", "[ops]") {
  op_bench bench;
  const std::int64_t n = GENERATE(1, 3, 16, 31, 257, 4099);
  const auto x = bench.uniform({n}, -6, 6), dy = bench.uniform({n});
  x.data<float>()[0] = 1.5F;  // so that the largest value is never a vanishing one
  const auto y = bench.make({n}), dx = bench.make({n});
  REQUIRE(bench.ops->gelu(x, y));
  REQUIRE(bench.ops->gelu_backward(x, dy, dx));
  reference::array expected, slope;
  for (double v : widen(x)) {
    expected.push_back(reference::gelu(v));
    slope.push_back((reference::gelu(v + 1e-5) - reference::gelu(v - 1e-5)) / 2e-5);
  }
  for (std::size_t i = 0; i < slope.size(); ++i) slope[i] *= dy.values<float>()[i];
  CHECK(deviation(y, expected) < 5e-7);
  CHECK(deviation(dx, slope) < 1e-6);
}

TEST_CASE("gelu of huge inputs is the input or 0 and its slope 1 or 0, and NaN stays NaN", "[ops]") {
  op_bench bench;
  const auto x = bench.make({5}), y = bench.make({5}), dy = bench.filled({5}, 1);
  const float inputs[] = {-1000.0F, -30.0F, 30.0F, 1000.0F, std::numeric_limits<float>::quiet_NaN()};
  std::ranges::copy(inputs, x.data<float>());
  REQUIRE(bench.ops->gelu(x, y));
  REQUIRE(bench.ops->gelu_backward(x, dy, dy));
  const auto value = y.values<float>(), slope = dy.values<float>();
  CHECK(std::abs(value[0]) < 1e-30F);
  CHECK(std::abs(value[1]) < 1e-30F);
  CHECK(value[2] == 30.0F);
  CHECK(value[3] == 1000.0F);
  CHECK(std::isnan(value[4]));
  CHECK(std::abs(slope[0]) < 1e-25F);
  CHECK(slope[2] == 1.0F);
  CHECK(slope[3] == 1.0F);
  CHECK(std::isnan(slope[4]));
}

TEST_CASE("an element's result does not depend on where it lies or how many follow", "[ops]") {
  op_bench bench;
  const auto x = bench.uniform({200}, -5, 5), dy = bench.uniform({200});
  const auto y = bench.make({200}), dx = bench.make({200});
  REQUIRE(bench.ops->gelu(x, y));
  REQUIRE(bench.ops->gelu_backward(x, dy, dx));
  for (std::int64_t first = 0; first < 40; ++first)
    for (std::int64_t count : {1, 2, 7, 16, 33, 100}) {
      const auto part = bench.make({count}), slope = bench.make({count});
      REQUIRE(bench.ops->gelu(x.slice(first, count), part));
      REQUIRE(bench.ops->gelu_backward(x.slice(first, count), dy.slice(first, count), slope));
      CHECK(bits(part) == bits(y.slice(first, count)));
      CHECK(bits(slope) == bits(dx.slice(first, count)));
    }
}

TEST_CASE("add and gelu may write over an operand", "[ops]") {
  op_bench bench;
  const auto a = bench.uniform({3, 37}), b = bench.uniform({3, 37}), y = bench.make({3, 37});
  REQUIRE(bench.ops->add(a, b, y));
  auto expected = widen(a);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] = static_cast<double>(a.values<float>()[i] + b.values<float>()[i]);
  CHECK(widen(y) == expected);
  const auto first = bench.duplicate(a), second = bench.duplicate(b);
  REQUIRE(bench.ops->add(first, b, first));
  REQUIRE(bench.ops->add(a, second, second));
  CHECK(bits(first) == bits(y));
  CHECK(bits(second) == bits(y));
  REQUIRE(bench.ops->gelu(a, y));
  REQUIRE(bench.ops->gelu_backward(a, b, second));
  const auto in_place = bench.duplicate(a), gradient_in_place = bench.duplicate(b);
  REQUIRE(bench.ops->gelu(in_place, in_place));
  REQUIRE(bench.ops->gelu_backward(a, gradient_in_place, gradient_in_place));
  CHECK(bits(in_place) == bits(y));
  CHECK(bits(gradient_in_place) == bits(second));
}

TEST_CASE("a bias joins each row, and its gradient adds the column sums to what is there", "[ops]") {
  op_bench bench;
  const std::int64_t rows = GENERATE(1, 3, 4, 9, 130), n = GENERATE(1, 5, 64, 77);
  CAPTURE(rows, n);
  const auto y = bench.uniform({rows, n}), bias = bench.uniform({n}), gradient = bench.filled({n}, 2);
  auto sums = reference::array(static_cast<std::size_t>(n), 2), expected = widen(y);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    sums[i % sums.size()] += expected[i];
    expected[i] += widen(bias)[i % sums.size()];
  }
  REQUIRE(bench.ops->bias_backward(y, gradient));
  REQUIRE(bench.ops->add_bias(y, bias));
  CHECK(deviation(gradient, sums) < 1e-6);
  CHECK(deviation(y, expected) < 1e-6);
}

TEST_CASE("a copy takes any type of equal bytes and refuses others", "[ops]") {
  op_bench bench;
  const auto tokens = bench.indices({3, 5}, 100), twin = bench.make({15}, dtype::i32);
  REQUIRE(bench.ops->copy(tokens, twin));
  CHECK(bits(twin) == bits(tokens));
  CHECK(text_of(bench.ops->copy(tokens, bench.make({4}))) ==
        "copy: from is i32 [3, 5] and to is f32 [4], expected equal bytes");
}

TEST_CASE("elementwise operations name the operand that does not fit", "[ops]") {
  op_bench bench;
  const auto x = bench.make({2, 3}), other = bench.make({3, 2}), tokens = bench.make({2, 3}, dtype::i32);
  CHECK(text_of(bench.ops->gelu(x, other)) == "gelu: y is f32 [3, 2], expected f32 [2, 3]");
  CHECK(text_of(bench.ops->gelu(tokens, x)) == "gelu: x is i32 [2, 3], expected f32 elements");
  CHECK(text_of(bench.ops->gelu_backward(x, tensor(), x)) == "gelu_backward: dy is no tensor, expected f32 [2, 3]");
  CHECK(text_of(bench.ops->add(x, x, other)) == "add: y is f32 [3, 2], expected f32 [2, 3]");
  CHECK(text_of(bench.ops->add_bias(x, bench.make({2}))) == "add_bias: bias is f32 [2], expected f32 [3]");
  CHECK(text_of(bench.ops->bias_backward(x, x)) == "bias_backward: dbias is f32 [2, 3], expected f32 [3]");
}
