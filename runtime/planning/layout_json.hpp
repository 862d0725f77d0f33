#pragma once

#include <nlohmann/json.hpp>

#include "runtime/planning/config_plan.hpp"

namespace troupe::planning {

/// What distinguishes one layout from another.
inline nlohmann::ordered_json layout_json(const training_plan& p) {
  return {{"pp", p.extents.stages},
          {"dp", p.extents.replicas},
          {"tp", p.extents.shards},
          {"schedule", p.schedule},
          {"chunks", p.chunks},
          {"micro_batch", p.micro_batch},
          {"recompute", to_string(p.recompute)}};
}

}  // namespace troupe::planning
