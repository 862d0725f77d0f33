#pragma once

#include <cstdint>

#include "kernels/core/result.hpp"
#include "kernels/layers/layer.hpp"

namespace troupe {

/// A GPT-2 style decoder: learned positions, pre-norm blocks, GELU, optionally tied head.
struct gpt_config {
  std::int64_t layers = 4;
  std::int64_t hidden = 128;
  std::int64_t heads = 4;
  std::int64_t seq_len = 128;
  std::int64_t vocab = 256;
  bool tied = true;
};

/// The model's layers + 2 pieces: `embedding` (i32 [B, S] to f32 [B, S, H]), `h.0` … `h.<layers−1>`, and `head` (final
/// LayerNorm, linear to the vocabulary, fused softmax cross-entropy; targets i32 [B, S]).
///
/// Parameter names and layouts are GPT-2's of Hugging Face: `wte.weight` [V, H], `wpe.weight` [S, H],
/// `h.N.ln_1.{weight,bias}`, `h.N.attn.c_attn.{weight [H, 3H],bias}`, `h.N.attn.c_proj.{weight [H, H],bias}`,
/// `h.N.ln_2.{…}`, `h.N.mlp.c_fc.{weight [H, 4H],bias}`, `h.N.mlp.c_proj.{weight [4H, H],bias}`, `ln_f.{weight,bias}`,
/// and `lm_head.weight` [V, H] where not tied. Initial values: normal 0.02; residual projections 0.02/√(2·layers);
/// biases 0; norms 1 and 0. Weight decay on matrices, not on norms and biases.
/// Errors: `invalid_argument`, one sentence that names the key and what would do.
result<layer_list> make_gpt(const gpt_config& config);

}  // namespace troupe
