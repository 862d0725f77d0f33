#pragma once

#include <cstdint>
#include <string>

#include "kernels/layers/layer.hpp"

namespace troupe {

/// y = x·weight + bias. x f32 [..., in], weight f32 [in, out], bias f32 [out], y f32 [..., out].
status linear_forward(backend& ops, const tensor& x, const parameter_view& weight, const parameter_view& bias,
                      const tensor& y);
/// dx = dy·weightᵀ.
status linear_backward_input(backend& ops, const tensor& dy, const parameter_view& weight, const tensor& dx);
/// weight.gradient += xᵀ·dy, bias.gradient += the column sums of dy.
status linear_backward_weight(backend& ops, const tensor& x, const tensor& dy, const parameter_view& weight,
                              const parameter_view& bias);

/// A fully connected layer: f32 [..., in] to f32 [..., out].
///
/// Parameters `<name>.weight` [in, out] and `<name>.bias` [out], both uniform in ±1/√in at first; decay on the weight.
/// Keeps its input.
class linear final : public layer {
public:
  linear(std::string name, std::int64_t inputs, std::int64_t outputs)
      : name_(std::move(name)), inputs_(inputs), outputs_(outputs) {}

  std::string name() const override { return name_; }
  std::vector<parameter_spec> parameters() const override;
  /// Errors: `invalid_argument` where the input is not f32 [..., in].
  result<tensor_spec> output(const tensor_spec& input) const override;
  double forward_flops(const tensor_spec& input) const override;
  std::size_t kept_bytes(const tensor_spec&) const override { return 0; }

  result<tensor> forward(layer_call& call, const tensor& x, kept_tensors& keep) override;
  result<tensor> backward_input(layer_call& call, const tensor& dy, kept_tensors& keep) override;
  status backward_weight(layer_call& call, kept_tensors& keep) override;

private:
  std::string name_;
  std::int64_t inputs_, outputs_;
};

}  // namespace troupe
