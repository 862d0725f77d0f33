#pragma once

#include <cstdint>

#include "kernels/core/result.hpp"
#include "kernels/layers/layer.hpp"
#include "kernels/layers/tensor_parallel.hpp"

namespace troupe {

/// A GPT-2 style decoder: learned positions, pre-norm blocks, GELU, optionally tied head.
struct gpt_config {
  std::int64_t layers = 4;
  std::int64_t hidden = 128;
  std::int64_t heads = 4;
  std::int64_t seq_len = 128;
  std::int64_t vocab = 256;
  bool tied = true;
  tensor_parallel shards = {};       ///< `make_gpt` builds the layers of one of them
  bool recompute_attention = false;  ///< its output is not kept but computed again in the backward
};

/// The model's layers + 2 pieces: `embedding` (i32 [B, S] to f32 [B, S, H]), `h.0` … `h.<layers−1>`, and `head` (final
/// LayerNorm, linear to the vocabulary, fused softmax cross-entropy; targets i32 [B, S]).
///
/// Parameter names and layouts are GPT-2's of Hugging Face: `wte.weight` [V, H], `wpe.weight` [S, H],
/// `h.N.ln_1.{weight,bias}`, `h.N.attn.c_attn.{weight [H, 3H],bias}`, `h.N.attn.c_proj.{weight [H, H],bias}`,
/// `h.N.ln_2.{…}`, `h.N.mlp.c_fc.{weight [H, 4H],bias}`, `h.N.mlp.c_proj.{weight [4H, H],bias}`, `ln_f.{weight,bias}`,
/// and `lm_head.weight` [V, H] where not tied. Initial values: normal 0.02; residual projections 0.02/√(2·layers);
/// biases 0; norms 1 and 0. Weight decay on matrices, not on norms and biases.
///
/// Cut over tensor shards: heads, and with them the columns of c_attn and rows of attn.c_proj; the columns of c_fc and
/// rows of mlp.c_proj; the vocabulary's rows of wte and lm_head, padded with zero rows where it does not divide.
/// Initial values are the same numbers under every cut. Errors: `invalid_argument`, one sentence that names the key and
/// what would do.
result<layer_list> make_gpt(const gpt_config& config);

}  // namespace troupe
