#pragma once

#include <vector>

#include "actors/schedule/virtual_time.hpp"
#include "runtime/planning/cluster.hpp"
#include "runtime/planning/model_cut.hpp"
#include "runtime/planning/placement.hpp"

namespace troupe::planning {

/// A plan with what was made of it; borrowed.
struct laid_out_plan {
  const training_plan& plan;
  const cluster& on;
  const placement& where;
  const std::vector<chunk_costs>& chunks;  ///< by virtual stage
  const schedule& order;
};

/// The last action of each chunk that adds to its gradients, over all replicas.
struct gradient_times {
  std::vector<time_interval> last;  ///< [virtual stage]
  std::vector<double> stage_end;    ///< [stage]
};
/// Adds one replica's run of `s`.
void note_last_backwards(gradient_times& times, const schedule& s, const virtual_run& run);

/// One exchange of all gradients of a stage between its replicas, alone; with ZeRO-1 each gets the sum of its share
/// only.
double exchange_s(const laid_out_plan& l, std::uint32_t stage);

/// When the last of all gradients is complete: replicas' sums, then what an embedding and a tied head on two stages
/// tell each other. Chunk after chunk, as each has its last backward; where the cluster overlaps, a chunk's first piece
/// is sent before its others are ready.
double gradients_end(const laid_out_plan& l, const gradient_times& times);

/// The optimizer on the slowest stage, with the word that all have ended and the word to update before it and, with
/// ZeRO-1, the exchange of parameters after it. `memory`: of each stage.
double update_s(const laid_out_plan& l, const std::vector<stage_memory>& memory);

}  // namespace troupe::planning
