#pragma once

#include <string>

#include "kernels/layers/layer.hpp"

namespace troupe {

/// A model's last layer for regression: y f32 [..., n] against a target of the same spec, to f32 [1], the squared
/// errors' mean over the n columns, summed over the rows times `loss_scale`. A step's losses thus add up to the mean
/// squared error over every element.
///
/// No parameters. The gradient is computed in the forward, in the input's place where nobody else holds that.
class mean_squared_error final : public layer {
public:
  explicit mean_squared_error(std::string name) : name_(std::move(name)) {}

  std::string name() const override { return name_; }
  /// Errors: `invalid_argument` where the input is not f32.
  result<tensor_spec> output(const tensor_spec& input) const override;
  double forward_flops(const tensor_spec& input) const override;
  std::size_t kept_bytes(const tensor_spec&) const override { return 0; }

  /// Errors: `invalid_argument` where the target's spec is not the input's.
  result<tensor> forward(layer_call& call, const tensor& y, kept_tensors& keep) override;
  result<tensor> backward_input(layer_call& call, const tensor& dy, kept_tensors& keep) override;

private:
  std::string name_;
};

}  // namespace troupe
