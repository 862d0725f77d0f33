#pragma once

#include <cstddef>
#include <vector>

#include "actors/schedule/schedule.hpp"
#include "runtime/planning/piece_costs.hpp"

namespace troupe::planning {

/// A run of pieces: one chunk of a stage. Costs are of all its pieces together, `recomputed_bytes` of the largest.
struct chunk_costs {
  std::size_t pieces = 0;
  std::int64_t layers = 0;  ///< of the pieces, those that are blocks
  bool embedding = false, head = false;
  piece_costs costs;
};

/// The chunks of a model, by virtual stage: as `plan.split` says, or so that the dearest forward is cheapest.
/// Errors: `invalid_argument`: more virtual stages than pieces, or a split that is not one of this model.
result<std::vector<chunk_costs>> cut_model(const training_plan& plan);

/// Bytes of one tensor shard of a stage. Of parameters that an embedding and a head share on one stage there is one
/// copy, but a gradient for each use. Activations: the most that are kept at once, with what is computed again for one
/// block; scratch of single operations is not counted.
struct stage_memory {
  std::int64_t layers = 0;
  std::int64_t parameters = 0;  ///< their number
  std::int64_t parameter_bytes = 0, gradient_bytes = 0, state_bytes = 0, activation_bytes = 0;

  std::int64_t bytes() const noexcept { return parameter_bytes + gradient_bytes + state_bytes + activation_bytes; }
};

/// Without the activations, which depend on a schedule's order: as if there was none.
stage_memory memory_without_activations(const training_plan& plan, const std::vector<chunk_costs>& chunks,
                                        const schedule& s, std::uint32_t stage);
stage_memory memory_of_stage(const training_plan& plan, const std::vector<chunk_costs>& chunks, const schedule& s,
                             std::uint32_t stage);

}  // namespace troupe::planning
