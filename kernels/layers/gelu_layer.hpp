#pragma once

#include <string>

#include "kernels/layers/layer.hpp"

namespace troupe {

/// GPT-2's GELU on each element: f32 [...] to the same. No parameters; keeps its input.
/// `backward_input` writes into `dy` where nobody else holds it.
class gelu_layer final : public layer {
public:
  explicit gelu_layer(std::string name) : name_(std::move(name)) {}

  std::string name() const override { return name_; }
  /// Errors: `invalid_argument` where the input is not f32.
  result<tensor_spec> output(const tensor_spec& input) const override;
  double forward_flops(const tensor_spec& input) const override;
  std::size_t kept_bytes(const tensor_spec&) const override { return 0; }

  result<tensor> forward(layer_call& call, const tensor& x, kept_tensors& keep) override;
  result<tensor> backward_input(layer_call& call, const tensor& dy, kept_tensors& keep) override;

private:
  std::string name_;
};

}  // namespace troupe
