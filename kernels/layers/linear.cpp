#include "kernels/layers/linear.hpp"

#include <fmt/format.h>

#include <cmath>

#include "kernels/layers/multiply.hpp"

namespace troupe {

namespace {

enum parameter : std::size_t { weight, bias };
enum slot : std::size_t { input, d_output };

}  // namespace

status linear_forward(backend& ops, const tensor& x, const parameter_view& w, const parameter_view& b,
                      const tensor& y) {
  TROUPE_CHECK(multiply(ops, x, w.value, y));
  return ops.add_bias(y, b.value);
}

status linear_backward_input(backend& ops, const tensor& dy, const parameter_view& w, const tensor& dx) {
  return multiply(ops, dy, transposed(w.value), dx);
}

status linear_backward_weight(backend& ops, const tensor& x, const tensor& dy, const parameter_view& w,
                              const parameter_view& b) {
  TROUPE_CHECK(multiply(ops, transposed(x), dy, w.gradient, 1));
  return ops.bias_backward(dy, b.gradient);
}

std::vector<parameter_spec> linear::parameters() const {
  const initial_value spread{initial_value::kind::uniform, 1 / std::sqrt(static_cast<float>(inputs_))};
  return {{name_ + ".weight", {inputs_, outputs_}, spread, true}, {name_ + ".bias", {outputs_}, spread, false}};
}

result<tensor_spec> linear::output(const tensor_spec& in) const {
  if (in.type != dtype::f32 || in.dims.rank() == 0 || in.dims.back() != inputs_ || in.dims.elements() == 0)
    return invalid(fmt::format("{}: the input is {}, not f32 [..., {}]", name_, to_string(in), inputs_));
  return tensor_spec{dtype::f32, in.dims.with_last(outputs_)};
}

double linear::forward_flops(const tensor_spec& in) const {
  return 2.0 * static_cast<double>(in.dims.elements()) * static_cast<double>(outputs_);
}

result<tensor> linear::forward(layer_call& call, const tensor& x, kept_tensors& keep) {
  TROUPE_TRY(const auto spec, output(x.spec()));
  TROUPE_TRY(tensor y, tensor::make(call.memory, spec));
  TROUPE_CHECK(linear_forward(call.ops, x, call.parameters[weight], call.parameters[bias], y));
  keep.put(input, x);
  return y;
}

result<tensor> linear::backward_input(layer_call& call, const tensor& dy, kept_tensors& keep) {
  TROUPE_TRY(tensor dx, tensor::make(call.memory, keep.at(input).spec()));
  TROUPE_CHECK(linear_backward_input(call.ops, dy, call.parameters[weight], dx));
  keep.put(d_output, dy);
  return dx;
}

status linear::backward_weight(layer_call& call, kept_tensors& keep) {
  const auto x = keep.take(input), dy = keep.take(d_output);
  return linear_backward_weight(call.ops, x, dy, call.parameters[weight], call.parameters[bias]);
}

}  // namespace troupe
