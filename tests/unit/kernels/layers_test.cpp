#include "gradient_check.hpp"
#include "kernels/layers/gelu_layer.hpp"
#include "kernels/layers/linear.hpp"
#include "kernels/layers/mean_squared_error.hpp"
#include "kernels/layers/multiply.hpp"

using namespace troupe;
using reference_gpt::values;

TEST_CASE("a linear layer's output and gradients are those of the f64 reference", "[layers]") {
  linear subject("fc", 5, 7);
  layer_fixture fixture(subject);
  const bool others_hold = GENERATE(true, false);
  check_gradients(fixture, subject, fixture.random({2, 3, 5}, "x"), others_hold,
                  [](const values& x, const auto& p) { return reference_gpt::linear(x, p[0], p[1]); });
}

TEST_CASE("GELU's output and gradient are those of the f64 reference", "[layers]") {
  gelu_layer subject("act");
  layer_fixture fixture(subject);
  const bool others_hold = GENERATE(true, false);
  check_gradients(fixture, subject, fixture.random({4, 9}, "x"), others_hold,
                  [](const values& x, const auto&) { return reference_gpt::gelu(x); });
}

TEST_CASE("the mean squared error of a step is the mean over every element", "[layers]") {
  mean_squared_error subject("loss");
  layer_fixture fixture(subject);
  fixture.target = fixture.random({3, 5}, "target");
  fixture.loss_scale = 1.0F / 3;  // three target rows in the step
  const auto wanted = gradient_check::widen(fixture.target);
  const bool others_hold = GENERATE(true, false);
  check_gradients(fixture, subject, fixture.random({3, 5}, "y"), others_hold, [&](const values& y, const auto&) {
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += (y[i] - wanted[i]) * (y[i] - wanted[i]);
    return values{sum / static_cast<double>(y.size())};
  });
}

TEST_CASE("a linear layer's weight gradients are the same bits however late they are computed", "[layers]") {
  linear subject("fc", 16, 24);
  layer_fixture fixture(subject);
  check_late_weight_gradients(
      fixture, subject,
      [&](int i) {
        return fixture.random({9, 16}, "x" + std::to_string(i));
      },
      [&](int i) {
        return fixture.random({9, 24}, "dy" + std::to_string(i));
      });
}

TEST_CASE("a layer refuses an input that does not fit and says what would", "[layers]") {
  linear subject("fc", 5, 7);
  layer_fixture fixture(subject);
  auto call = fixture.call();
  kept_tensors keep;
  const auto y = subject.forward(call, fixture.random({2, 6}, "x"), keep);
  REQUIRE_FALSE(y);
  CHECK(y.error().code == errc::invalid_argument);
  CHECK(y.error().where == "fc: the input is f32 [2, 6], not f32 [..., 5]");
  CHECK(keep.bytes() == 0);
}

TEST_CASE("a squared error without its target is refused", "[layers]") {
  mean_squared_error subject("loss");
  layer_fixture fixture(subject);
  auto call = fixture.call();
  kept_tensors keep;
  const auto loss = subject.forward(call, fixture.random({2, 6}, "y"), keep);
  REQUIRE_FALSE(loss);
  CHECK(loss.error().where == "loss: the target is missing, the input f32 [2, 6]; they must be the same");
}

TEST_CASE("matrices that do not fit each other are refused before any arithmetic", "[layers]") {
  linear subject("fc", 1, 1);
  layer_fixture fixture(subject);
  const auto a = fixture.random({2, 3}, "a"), b = fixture.random({4, 3}, "b"), c = fixture.make({dtype::f32, {2, 4}});
  CHECK(multiply(*fixture.ops, a, transposed(b), c));
  const auto wrong = multiply(*fixture.ops, a, b, c);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().where == "multiply: [2, 3] times [4, 3] into [2, 4]");
}
