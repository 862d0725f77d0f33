#pragma once

#include <cstdint>

#include "runtime/planning/training_plan.hpp"

namespace troupe::planning {

/// What one device does for one micro-batch.
struct work {
  double flops = 0;          ///< of matrix products
  double traffic_bytes = 0;  ///< read and written outside matrix products
  double reductions = 0;     ///< all-reduces of one whole activation over the tensor shards; half ones count half

  work& operator+=(const work& other) noexcept {
    flops += other.flops;
    traffic_bytes += other.traffic_bytes;
    reductions += other.reductions;
    return *this;
  }
};

/// An indivisible piece of a model as one tensor shard sees it. Numbers of bytes are of one micro-batch.
struct piece_costs {
  std::int64_t parameters = 0;
  std::int64_t table = 0;  ///< of them in a table that the embedding and a tied head share
  work forward, backward_input, backward_weight;
  work recompute;                           ///< what the backward does again, before `backward_input`
  std::int64_t kept_bytes = 0;              ///< from forward to backward, input included
  std::int64_t kept_after_input_bytes = 0;  ///< from the gradient of the input to that of the weights
  std::int64_t recomputed_bytes = 0;        ///< more than `kept_bytes` while its backward runs
};

/// A whole activation of one micro-batch, [B, S, H], in bytes.
std::int64_t activation_bytes(const training_plan& plan);
/// What of it lies on one tensor shard.
std::int64_t local_activation_bytes(const training_plan& plan);

/// The pieces, in three kinds.
///
/// Matrix products, B sequences of S tokens, width H, vocabulary V, cut over t shards: a block's forward 24·BSH² for
/// its weights and 4·BS²H for attention, half of that where only the causal half is computed; the head's 2·BSHV. The
/// gradient of the input takes as much for weights and twice as much for attention, that of the weights as much for
/// weights. Source: Narayanan et al. 2021, arXiv:2104.04473, appendix.
///
/// Kept by Megatron-LM's blocks: BSH·(10 + 24/t + 5·heads·S/(H·t)) bytes, all of it over t where rows are cut, without
/// the last term where attention is recomputed, 2·BSH where everything is; 32·BSH after the gradient of the input.
/// Sources: Korthikanti et al. 2022, arXiv:2205.05198, equations 1 to 4; Qi et al. 2023, arXiv:2401.10241, table 1.
/// Kept by Troupe's: what its layers say (`layer::kept_bytes`).
///
/// Memory traffic: what a block keeps without recomputing is written once and read once, and its backward does twice
/// that. Collectives: two all-reduces in a block's forward and in its gradient of the input.
piece_costs embedding_costs(const training_plan& plan);
piece_costs block_costs(const training_plan& plan);
piece_costs head_costs(const training_plan& plan);

/// Floating-point operations of the model for one step on all devices, without what is computed again.
double model_flops(const training_plan& plan);
/// And of what is computed again.
double recomputed_flops(const training_plan& plan);

}  // namespace troupe::planning
