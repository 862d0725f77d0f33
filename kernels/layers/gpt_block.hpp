#pragma once

#include "kernels/layers/gpt.hpp"

namespace troupe {

/// One pre-norm decoder block, f32 [B, S, H] to the same:
///
///   middle = x + c_proj(attention(c_attn(ln_1(x))))
///   y      = middle + c_proj(gelu(c_fc(ln_2(middle))))
///
/// Keeps 9·H + 4 + heads floats a token beside its input (8·H + 4 where attention is recomputed; of tp shards, each
/// 8·H/tp of them and, without sequence parallelism, all of the rest); the outputs of both norms and of GELU are
/// computed again in `backward_weight`, in the place of their inputs. Source: Radford et al. 2019, "Language models are
/// unsupervised multitask learners", section 2.3; names and layouts as in `make_gpt`.
class gpt_block final : public layer {
public:
  /// `index` counts the blocks of the model from 0.
  gpt_block(const gpt_config& config, std::int64_t index);

  std::string name() const override { return name_; }
  std::vector<parameter_spec> parameters() const override;
  /// Errors: `invalid_argument` where the input is not f32 [B, S, H] with 1 ≤ S ≤ seq_len.
  result<tensor_spec> output(const tensor_spec& input) const override;
  /// Matrix products and the causal half of attention.
  double forward_flops(const tensor_spec& input) const override;
  std::size_t kept_bytes(const tensor_spec& input) const override;

  result<tensor> forward(layer_call& call, const tensor& x, kept_tensors& keep) override;
  result<tensor> backward_input(layer_call& call, const tensor& dy, kept_tensors& keep) override;
  status backward_weight(layer_call& call, kept_tensors& keep) override;

private:
  std::int64_t own_heads() const { return config_.heads / config_.shards.size; }
  std::int64_t own_hidden() const { return config_.hidden / config_.shards.size; }
  result<tensor> core_attention(layer_call& call, const tensor& heads_in, kept_tensors& keep) const;
  result<tensor> attend(layer_call& call, const tensor& x, kept_tensors& keep) const;
  result<tensor> feed_forward(layer_call& call, const tensor& middle, kept_tensors& keep) const;
  result<tensor> attend_backward(layer_call& call, const tensor& d_middle, kept_tensors& keep) const;
  result<tensor> feed_forward_backward(layer_call& call, const tensor& dy, kept_tensors& keep) const;

  gpt_config config_;
  std::string name_;
};

}  // namespace troupe
