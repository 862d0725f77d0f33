#pragma once

#include <cmath>

#include "kernels/layers/linear.hpp"

/// A stage of our own: y = tanh(x·W + b), f32 [batch, in] to f32 [batch, out]. This is all that a stage author writes;
/// placement, messages, accumulation over micro-batches, clipping and the update are Troupe's.
class tanh_stage final : public troupe::layer {
public:
  tanh_stage(std::string name, std::int64_t in, std::int64_t out) : linear_(std::move(name), in, out) {}

  std::string name() const override { return linear_.name(); }
  std::vector<troupe::parameter_spec> parameters() const override { return linear_.parameters(); }
  troupe::result<troupe::tensor_spec> output(const troupe::tensor_spec& in) const override {
    return linear_.output(in);
  }
  double forward_flops(const troupe::tensor_spec& in) const override { return linear_.forward_flops(in); }
  std::size_t kept_bytes(const troupe::tensor_spec& in) const override { return output(in)->bytes(); }

  troupe::result<troupe::tensor> forward(troupe::layer_call& call, const troupe::tensor& x,
                                         troupe::kept_tensors& keep) override {
    TROUPE_TRY(auto y, linear_.forward(call, x, keep));  // keeps x in its own slots
    for (float& v : y.values<float>()) v = std::tanh(v);
    keep.put(activated, y);
    return y;
  }
  troupe::result<troupe::tensor> backward_input(troupe::layer_call& call, const troupe::tensor& dy,
                                                troupe::kept_tensors& keep) override {
    const auto y = keep.take(activated);
    TROUPE_TRY(auto dz, troupe::tensor::make(call.memory, dy.spec()));
    for (std::int64_t i = 0; i < dz.elements(); ++i)
      dz.data<float>()[i] = dy.data<float>()[i] * (1 - y.data<float>()[i] * y.data<float>()[i]);
    return linear_.backward_input(call, dz, keep);
  }
  troupe::status backward_weight(troupe::layer_call& call, troupe::kept_tensors& keep) override {
    return linear_.backward_weight(call, keep);
  }

private:
  static constexpr std::size_t activated = 8;  // a slot that `linear` leaves free
  troupe::linear linear_;
};
