#pragma once

#include "kernels/layers/gpt.hpp"

namespace troupe {

/// GPT's last layer and its loss: f32 [B, S, H] to f32 [1], `loss_scale` times the sum over the tokens of
/// −log softmax(ln_f(x)·wteᵀ)[target]; targets i32 [B, S]. Parameters: `ln_f.weight`, `ln_f.bias`, and `wte.weight`
/// (tied) or `lm_head.weight`, [V, H].
///
/// Cut over tensor shards, each computes the logits of its own classes; only three numbers a token pass between them.
/// Keeps beside its input the gradient of the logits, V floats a token, which the fused loss writes over them.
class gpt_head final : public layer {
public:
  explicit gpt_head(const gpt_config& config) : config_(config) {}

  std::string name() const override { return "head"; }
  std::vector<parameter_spec> parameters() const override;
  /// Errors: `invalid_argument` where the input is not f32 [B, S, H] with 1 ≤ S ≤ seq_len.
  result<tensor_spec> output(const tensor_spec& input) const override;
  double forward_flops(const tensor_spec& input) const override;
  std::size_t kept_bytes(const tensor_spec& input) const override;

  /// Errors: `invalid_argument` where the target is not i32 [B, S].
  result<tensor> forward(layer_call& call, const tensor& x, kept_tensors& keep) override;
  result<tensor> backward_input(layer_call& call, const tensor& dy, kept_tensors& keep) override;
  status backward_weight(layer_call& call, kept_tensors& keep) override;

private:
  result<tensor> loss_of(layer_call& call, const tensor& logits) const;

  gpt_config config_;
};

}  // namespace troupe
