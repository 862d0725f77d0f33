#pragma once

#include <string>

#include "runtime/config.hpp"

namespace troupe::planning {

/// A config's own layout: for each shard what it holds and where it goes. A table, or one JSON object.
/// Errors: as `plan_of_config`, `place` and `predict_step`.
result<std::string> layout_report(const config& c, bool json);

/// The fastest layouts for the config's model, batch and cluster, and why the best is the best.
/// Errors: as `plan_of_config` and `search_layouts`.
result<std::string> ranking_report(const config& c, bool json);

}  // namespace troupe::planning
