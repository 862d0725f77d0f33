#pragma once

#include <vector>

#include "actors/schedule/virtual_time.hpp"
#include "runtime/planning/action_times.hpp"
#include "runtime/planning/placement.hpp"

namespace troupe::planning {

/// A stage of the replica that ends last.
struct stage_prediction {
  stage_memory memory;
  double work_s = 0;  ///< of all its actions
  double bubble = 0;  ///< idle share of the pipeline's makespan
};

struct step_prediction {
  schedule order;
  virtual_run run;  ///< of the slowest replica, seconds
  std::vector<stage_prediction> stages;
  step_terms terms;
  double step_s = 0, tokens_per_s = 0;
  double flops_per_device_per_s = 0;  ///< of the model: what is computed again does not count
  double hardware_flops_per_device_per_s = 0;
  double mfu = 0;  ///< model flops / peak

  std::int64_t peak_bytes() const;
  std::uint32_t fullest_stage() const;
};

/// The schedule that `plan` names, for its mesh. `plan.chunks` must be what `schedule_chunks` says. Errors: as
/// `make_schedule`.
result<schedule> schedule_of(const training_plan& plan);

/// Where `plan`'s shards go on `on`. `nodes` = 0 in the cluster: as many as it takes. Errors: as `place`, `cut_model`.
result<placement> place_plan(const training_plan& plan, const cluster& on);

/// One step in virtual time: every replica by its schedule, with hops as its placement has them; then the exchange of
/// gradients, which begins during the last backwards where the cluster overlaps it; then, when all have ended, the
/// update. Tensor shards of a stage go in step, so one of them is simulated. Errors: as `cut_model`, `make_schedule`.
result<step_prediction> predict_step(const training_plan& plan, const cluster& on, const placement& where);
/// The same, with what was made before.
result<step_prediction> predict_step(const training_plan& plan, const cluster& on, const placement& where,
                                     const std::vector<chunk_costs>& chunks, schedule order);

}  // namespace troupe::planning
