#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/mesh.hpp"

namespace troupe::planning {

/// A GPT's extents, as the config's [model].
struct model_shape {
  std::int64_t layers = 1, hidden = 1, heads = 1, seq_len = 1, vocab = 2;
  bool tied = true;
};

/// Activations that the backward computes again instead of keeping them.
enum class recomputing : std::uint8_t {
  none,
  selective,  ///< attention's
  full,       ///< all of a block's but its input
};

/// Bytes of a number where it lives.
struct number_format {
  std::int64_t value = 4;     ///< parameters and activations
  std::int64_t gradient = 4;  ///< of a parameter
  std::int64_t state =
      8;              ///< the optimizer's of a parameter: AdamW's two moments, and an f32 copy where values are not
  bool half = false;  ///< matrix products run at the device's rate for 16 bits
};
inline constexpr number_format f32_numbers{};
/// Gradients are summed in f32, because a step adds up hundreds of micro-batches.
inline constexpr number_format bf16_numbers{2, 4, 12, true};
/// As Megatron-LM trained in 2021.
inline constexpr number_format fp16_numbers{2, 2, 12, true};

/// Whose blocks: they differ in what they keep, and in whether attention computes the masked half of its scores.
enum class engine : std::uint8_t {
  troupe,         ///< kernels/layers
  megatron_2021,  ///< unfused attention, dropout; arXiv:2104.04473 and arXiv:2205.05198
};

/// All that decides what a step costs, beside the machine.
struct training_plan {
  model_shape model;
  mesh extents;
  std::uint32_t chunks = 1;
  std::int64_t micro_batch = 1;   ///< sequences
  std::int64_t global_batch = 1;  ///< sequences; a multiple of micro_batch times replicas
  std::string schedule = "1f1b";
  recomputing recompute = recomputing::none;
  bool sequence_parallel = true;  ///< matters where shards > 1
  bool split_optimizer = false;   ///< ZeRO-1
  number_format numbers = f32_numbers;
  engine blocks = engine::troupe;
  std::vector<std::size_t> split;  ///< pieces of each virtual stage, embedding and head counted; empty: balanced

  std::int64_t pieces() const noexcept { return model.layers + 2; }
  std::uint32_t micro_batches() const noexcept {
    return static_cast<std::uint32_t>(global_batch / micro_batch / extents.replicas);
  }
  bool rows_are_cut() const noexcept { return sequence_parallel && extents.shards > 1; }
};

}  // namespace troupe::planning
