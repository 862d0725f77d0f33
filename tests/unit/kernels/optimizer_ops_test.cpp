#include "op_bench.hpp"

using namespace troupe;

namespace {

// Loshchilov and Hutter 2019, algorithm 2, on one number in f64.
struct adamw_reference {
  double parameter, moment1 = 0, moment2 = 0;
  void update(const adamw_args& a, double gradient) {
    const auto t = static_cast<double>(a.step);
    const double g = gradient * a.gradient_scale, beta1 = a.beta1, beta2 = a.beta2;
    moment1 = beta1 * moment1 + (1 - beta1) * g;
    moment2 = beta2 * moment2 + (1 - beta2) * g * g;
    const double m = moment1 / (1 - std::pow(beta1, t)), v = moment2 / (1 - std::pow(beta2, t));
    parameter -= a.learning_rate * (m / (std::sqrt(v) + a.epsilon) + a.weight_decay * parameter);
  }
};

}  // namespace

TEST_CASE("five AdamW updates equal the f64 algorithm", "[ops]") {
  op_bench bench;
  const std::int64_t n = GENERATE(1, 15, 1037);
  const auto parameter = bench.uniform({n}), m = bench.filled({n}, 0), v = bench.filled({n}, 0);
  std::vector<adamw_reference> expected;
  for (double p : widen(parameter)) expected.push_back({p});
  adamw_args args{.learning_rate = 0.01F, .weight_decay = 0.1F, .gradient_scale = 0.5F};
  for (args.step = 1; args.step <= 5; ++args.step) {
    const auto gradient = bench.uniform({n});
    REQUIRE(bench.ops->adamw(args, parameter, gradient, m, v));
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i].update(args, widen(gradient)[i]);
  }
  reference::array parameters, moments1, moments2;
  for (const auto& e : expected) {
    parameters.push_back(e.parameter);
    moments1.push_back(e.moment1);
    moments2.push_back(e.moment2);
  }
  CHECK(deviation(parameter, parameters) < 1e-6);
  CHECK(deviation(m, moments1) < 1e-6);
  CHECK(deviation(v, moments2) < 1e-6);
}

TEST_CASE("an AdamW update of a part has the same bits as of the whole", "[ops]") {
  op_bench bench;
  const auto whole = bench.uniform({300}), gradient = bench.uniform({300});
  const auto m = bench.uniform({300}), v = bench.uniform({300}, 0, 1);
  const adamw_args args{.learning_rate = 0.01F, .weight_decay = 0.1F, .step = 3};
  for (std::int64_t first : {0, 1, 5, 16, 31})
    for (std::int64_t count : {1, 7, 16, 50, 200}) {
      const auto p = bench.duplicate(whole), part = bench.duplicate(whole.slice(first, count));
      REQUIRE(bench.ops->adamw(args, p, gradient, bench.duplicate(m), bench.duplicate(v)));
      REQUIRE(bench.ops->adamw(args, part, gradient.slice(first, count), bench.duplicate(m.slice(first, count)),
                               bench.duplicate(v.slice(first, count))));
      CHECK(bits(part) == bits(p.slice(first, count)));
    }
}

TEST_CASE("AdamW refuses step 0 and a gradient of another size", "[ops]") {
  op_bench bench;
  const auto p = bench.uniform({4});
  CHECK(text_of(bench.ops->adamw({.step = 0}, p, p, p, p)) == "adamw: step is 0, expected 1 or more");
  CHECK(text_of(bench.ops->adamw({}, p, bench.make({3}), p, p)) == "adamw: gradient is f32 [3], expected 4 f32 in all");
  CHECK(text_of(bench.ops->adamw({}, p, p, p, tensor())) == "adamw: moment2 is no tensor, expected 4 f32 in all");
}

TEST_CASE("squared_norm is exact to f64 rounding and does not depend on shape or address", "[ops]") {
  op_bench bench;
  const std::int64_t n = GENERATE(1, 31, 32, 1000, 65537);
  const auto x = bench.uniform({n + 1}, -3, 3);
  long double expected = 0;
  for (double v : widen(x.slice(1, n))) expected += static_cast<long double>(v) * static_cast<long double>(v);
  const auto norm = bench.ops->squared_norm(x.slice(1, n));
  REQUIRE(norm);
  CHECK(*norm == Approx(static_cast<double>(expected)).epsilon(1e-13));
  const auto aligned = bench.duplicate(x.slice(1, n)).reshaped({1, n});
  CHECK(bench.ops->squared_norm(aligned).value() == *norm);
  CHECK(text_of(bench.ops->squared_norm(tensor())) == "squared_norm: x is no tensor, expected f32 elements");
}
