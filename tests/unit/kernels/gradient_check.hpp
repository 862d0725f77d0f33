#pragma once

#include <functional>

#include "layer_fixture.hpp"
#include "reference_gpt.hpp"

/// A layer's output in f64 as a function of its input and parameters. Tokens and targets are bound by the caller.
using reference_output = std::function<reference_gpt::values(const reference_gpt::values& x,
                                                             const std::vector<reference_gpt::values>& parameters)>;

namespace gradient_check {

using reference_gpt::values;

inline values widen(const troupe::tensor& t) {
  if (!t || t.type() != troupe::dtype::f32) return {};
  const auto v = t.values<float>();
  return {v.begin(), v.end()};
}

/// The largest difference, as a share of the largest reference value.
inline double deviation(const values& got, const values& expected) {
  REQUIRE(got.size() == expected.size());
  double difference = 0, largest = 1e-30;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference = std::max(difference, std::abs(got[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

/// d(loss)/d(variables) by central differences. f64 throughout: in f32 the rounding would swamp the difference.
inline values differentiate(const std::function<double()>& loss, values& variables) {
  constexpr double h = 1e-5;
  values gradient;
  for (auto& v : variables) {
    const double at = v;
    v = at + h;
    const double above = loss();
    v = at - h;
    const double below = loss();
    v = at;
    gradient.push_back((above - below) / (2 * h));
  }
  return gradient;
}

}  // namespace gradient_check

/// Runs forward and backward of `subject` on `x` and compares the output, the gradient of the input and those of all
/// parameters with `reference` and its central differences; then that the layer kept what it says and freed everything.
/// With `others_hold` input and gradient stay referenced, as by a sender in the same process, and must stay as they
/// are; without, the layer may overwrite them.
inline void check_gradients(layer_fixture& fixture, troupe::layer& subject, troupe::tensor x, bool others_hold,
                            const reference_output& reference) {
  using namespace gradient_check;
  constexpr double close = 1e-5;
  INFO(subject.name() << (others_hold ? ", boundary tensors shared" : ", boundary tensors its own"));

  auto wide_x = widen(x);
  std::vector<values> wide_parameters;
  for (const auto& p : fixture.parameters) wide_parameters.push_back(widen(p.value));
  for (const auto& p : fixture.parameters) REQUIRE(fixture.ops->fill(p.gradient, 0.25F));  // it adds, never overwrites

  auto call = fixture.call();
  troupe::kept_tensors keep;
  const auto input = x.spec();
  const auto shared_x = others_hold ? x : troupe::tensor();
  auto y = subject.forward(call, x, keep);
  REQUIRE(y);
  x = troupe::tensor();
  CHECK(keep.bytes() == input.bytes() + subject.kept_bytes(input));
  REQUIRE(y->spec() == subject.output(input).value());
  CHECK(deviation(widen(*y), reference(wide_x, wide_parameters)) < close);

  const bool is_loss = static_cast<bool>(fixture.target);
  auto dy = is_loss ? troupe::tensor() : fixture.random(y->dims(), "dy");
  const auto weights = is_loss ? values{1} : widen(dy);
  const auto loss = [&] {
    const auto out = reference(wide_x, wide_parameters);
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += weights[i] * out[i];
    return sum;
  };
  const auto shared_dy = others_hold ? dy : troupe::tensor();
  auto dx = subject.backward_input(call, dy, keep);
  REQUIRE(dx);
  if (!is_loss) dy = troupe::tensor();
  REQUIRE(subject.backward_weight(call, keep));
  CHECK(keep.bytes() == 0);

  if (input.type == troupe::dtype::f32) {
    REQUIRE(dx->spec() == input);
    CHECK(deviation(widen(*dx), differentiate(loss, wide_x)) < close);
  } else {
    CHECK_FALSE(*dx);
  }
  for (std::size_t i = 0; i < fixture.parameters.size(); ++i) {
    INFO(subject.parameters()[i].name);
    auto expected = differentiate(loss, wide_parameters[i]);
    for (auto& g : expected) g += 0.25;
    CHECK(deviation(widen(fixture.parameters[i].gradient), expected) < close);
  }
  if (others_hold) {
    CHECK(widen(shared_x) == wide_x);
    if (!is_loss) CHECK(widen(shared_dy) == weights);
  }
}

/// Three micro-batches through `subject`, the weight gradients right after each input gradient or all at the end: the
/// gradients must have the same bits. `input(i)` makes micro-batch i's input, `dy(i)` its gradient, empty for a loss.
inline void check_late_weight_gradients(layer_fixture& fixture, troupe::layer& subject,
                                        const std::function<troupe::tensor(int)>& input,
                                        const std::function<troupe::tensor(int)>& dy) {
  constexpr int micro_batches = 3;
  const auto run = [&](bool late) {
    fixture.clear_gradients();
    std::vector<troupe::kept_tensors> kept(micro_batches);
    std::vector<float> input_gradients;
    auto call = fixture.call();
    for (int i = 0; i < micro_batches; ++i) REQUIRE(subject.forward(call, input(i), kept[static_cast<std::size_t>(i)]));
    for (int i = 0; i < micro_batches; ++i) {
      auto& keep = kept[static_cast<std::size_t>(i)];
      auto dx = subject.backward_input(call, dy(i), keep);
      REQUIRE(dx);
      if (*dx) input_gradients.insert(input_gradients.end(), dx->data<float>(), dx->data<float>() + dx->elements());
      if (!late) REQUIRE(subject.backward_weight(call, keep));
    }
    for (auto& keep : kept)
      if (late) REQUIRE(subject.backward_weight(call, keep));
    auto all = fixture.gradients();
    all.insert(all.end(), input_gradients.begin(), input_gradients.end());
    return all;
  };
  CHECK(same_bits(run(false), run(true)));
}
