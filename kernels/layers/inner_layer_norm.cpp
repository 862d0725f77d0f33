#include "kernels/layers/inner_layer_norm.hpp"

#include "kernels/layers/reuse.hpp"

namespace troupe {

namespace {
enum offset : std::size_t { input, mean, rstd, d_output };
}

result<tensor> inner_layer_norm::forward(layer_call& call, const tensor& x, kept_tensors& keep) const {
  const tensor_spec per_row{dtype::f32, {x.dims().rows()}};
  TROUPE_TRY(tensor y, tensor::make(call.memory, x.spec()));
  TROUPE_TRY(tensor means, tensor::make(call.memory, per_row));
  TROUPE_TRY(tensor rstds, tensor::make(call.memory, per_row));
  const auto &gamma = call.parameters[weight].value, &beta = call.parameters[weight + 1].value;
  TROUPE_CHECK(call.ops.layer_norm(x, gamma, beta, epsilon, y, means, rstds));
  keep.put(slot + input, x);
  keep.put(slot + mean, std::move(means));
  keep.put(slot + rstd, std::move(rstds));
  return y;
}

result<tensor> inner_layer_norm::backward_input(layer_call& call, const tensor& dy, const tensor& add_to,
                                                kept_tensors& keep) const {
  TROUPE_TRY(tensor dx, tensor::make(call.memory, dy.spec()));
  TROUPE_CHECK(call.ops.layer_norm_backward_input(dy, keep.at(slot + input), call.parameters[weight].value,
                                                  keep.at(slot + mean), keep.at(slot + rstd), dx, add_to));
  keep.put(slot + d_output, dy);
  return dx;
}

result<tensor> inner_layer_norm::backward_weight(layer_call& call, kept_tensors& keep) const {
  const auto &gamma = call.parameters[weight], &beta = call.parameters[weight + 1];
  const auto x = keep.take(slot + input), means = keep.take(slot + mean), rstds = keep.take(slot + rstd);
  const auto dy = keep.take(slot + d_output);
  TROUPE_CHECK(call.ops.layer_norm_backward_weight(dy, x, means, rstds, gamma.gradient, beta.gradient));
  TROUPE_TRY(tensor y, reuse_or_make(call.memory, x));
  TROUPE_CHECK(call.ops.layer_norm(x, gamma.value, beta.value, epsilon, y, means, rstds));
  return y;
}

}  // namespace troupe
