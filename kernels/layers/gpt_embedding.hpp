#pragma once

#include "kernels/layers/gpt.hpp"

namespace troupe {

/// GPT's first layer: i32 tokens [B, S] to f32 [B, S, H], the token's row plus the position's. S may be shorter than
/// the model's `seq_len`. Keeps the tokens. Parameters: `wte.weight`, `wpe.weight`.
class gpt_embedding final : public layer {
public:
  explicit gpt_embedding(const gpt_config& config) : config_(config) {}

  std::string name() const override { return "embedding"; }
  std::vector<parameter_spec> parameters() const override;
  /// Errors: `invalid_argument` where the input is not i32 [B, S] with 1 ≤ S ≤ seq_len.
  result<tensor_spec> output(const tensor_spec& input) const override;
  double forward_flops(const tensor_spec& input) const override;
  std::size_t kept_bytes(const tensor_spec&) const override { return 0; }

  result<tensor> forward(layer_call& call, const tensor& tokens, kept_tensors& keep) override;
  result<tensor> backward_input(layer_call& call, const tensor& dy, kept_tensors& keep) override;
  status backward_weight(layer_call& call, kept_tensors& keep) override;

private:
  gpt_config config_;
};

/// The specification that the embedding and a tied head share: `wte.weight` [V, H].
parameter_spec token_table(const gpt_config& config);

}  // namespace troupe
