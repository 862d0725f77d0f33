#include "kernels/layers/mean_squared_error.hpp"

#include <fmt/format.h>

#include "kernels/layers/reuse.hpp"

namespace troupe {

namespace {
enum slot : std::size_t { gradient };
}

result<tensor_spec> mean_squared_error::output(const tensor_spec& in) const {
  if (in.type != dtype::f32 || in.dims.elements() == 0)
    return invalid(fmt::format("{}: the input is {}, not f32 with at least one element", name_, to_string(in)));
  return tensor_spec{dtype::f32, {1}};
}

double mean_squared_error::forward_flops(const tensor_spec& in) const {
  return 4.0 * static_cast<double>(in.dims.elements());
}

result<tensor> mean_squared_error::forward(layer_call& call, const tensor& y, kept_tensors& keep) {
  TROUPE_TRY(const auto spec, output(y.spec()));
  if (!call.target || call.target.spec() != y.spec())
    return invalid(fmt::format("{}: the target is {}, the input {}; they must be the same", name_,
                               call.target ? to_string(call.target.spec()) : "missing", to_string(y.spec())));
  TROUPE_TRY(tensor loss, tensor::make(call.memory, spec));
  TROUPE_TRY(tensor work, reuse_or_make(call.memory, y));
  if (work.raw() != y.raw()) TROUPE_CHECK(call.ops.copy(y, work));
  const float scale = call.loss_scale / static_cast<float>(y.dims().back());
  TROUPE_CHECK(call.ops.squared_error(work, call.target, scale, loss));
  keep.put(gradient, work);
  return loss;
}

result<tensor> mean_squared_error::backward_input(layer_call&, const tensor&, kept_tensors& keep) {
  return keep.take(gradient);
}

}  // namespace troupe
