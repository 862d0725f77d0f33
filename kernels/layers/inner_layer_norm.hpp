#pragma once

#include "kernels/layers/layer.hpp"

namespace troupe {

/// The LayerNorm inside a bigger layer: which of that layer's parameters it uses (`weight`, then bias) and which slots
/// it keeps its tensors in. Its output is not kept but computed again in the backward from its input: one pass over the
/// rows against a whole activation per micro-batch in flight.
struct inner_layer_norm {
  static constexpr float epsilon = 1e-5F;
  static constexpr std::size_t slots = 4;  ///< input, mean, 1/deviation; gradient of the output
  std::size_t weight = 0;                  ///< index of its first parameter
  std::size_t slot = 0;                    ///< its first slot

  /// What `forward` keeps beside its input.
  static std::size_t kept_bytes(const shape& x) { return 2 * sizeof(float) * static_cast<std::size_t>(x.rows()); }

  /// The normalised rows of x f32 [..., n].
  result<tensor> forward(layer_call& call, const tensor& x, kept_tensors& keep) const;
  /// The gradient of x, plus `add_to` where given.
  result<tensor> backward_input(layer_call& call, const tensor& dy, const tensor& add_to, kept_tensors& keep) const;
  /// Adds to both parameters' gradients, frees what was kept and returns the forward's output once more.
  result<tensor> backward_weight(layer_call& call, kept_tensors& keep) const;
};

}  // namespace troupe
