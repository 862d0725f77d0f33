#include "kernels/layers/gelu_layer.hpp"

#include <fmt/format.h>

#include "kernels/layers/reuse.hpp"

namespace troupe {

namespace {
enum slot : std::size_t { input };
}

result<tensor_spec> gelu_layer::output(const tensor_spec& in) const {
  if (in.type != dtype::f32) return invalid(fmt::format("{}: the input is {}, not f32", name_, to_string(in)));
  return in;
}

double gelu_layer::forward_flops(const tensor_spec& in) const {
  constexpr double per_element = 10;  // the polynomial, a tanh counted as one, and the products around it
  return per_element * static_cast<double>(in.dims.elements());
}

result<tensor> gelu_layer::forward(layer_call& call, const tensor& x, kept_tensors& keep) {
  TROUPE_TRY(const auto spec, output(x.spec()));
  TROUPE_TRY(tensor y, tensor::make(call.memory, spec));
  TROUPE_CHECK(call.ops.gelu(x, y));
  keep.put(input, x);
  return y;
}

result<tensor> gelu_layer::backward_input(layer_call& call, const tensor& dy, kept_tensors& keep) {
  const auto x = keep.take(input);
  TROUPE_TRY(tensor dx, reuse_or_make(call.memory, dy));
  TROUPE_CHECK(call.ops.gelu_backward(x, dy, dx));
  return dx;
}

}  // namespace troupe
