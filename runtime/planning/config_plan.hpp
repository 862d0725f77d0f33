#pragma once

#include "runtime/config.hpp"
#include "runtime/planning/cluster.hpp"

namespace troupe::planning {

/// What a config asks to plan: its run, but with [plan]'s schedule, chunks and number format, on [cluster]'s machines.
struct planned_run {
  training_plan plan;
  cluster on;  ///< nodes = 0: as many as it takes
};

/// Errors: `invalid_argument`, one sentence with the key: a model that is no GPT, a mesh that does not divide, a
/// schedule that cannot have so many chunks.
result<planned_run> plan_of_config(const config& c);

/// The machines of [cluster]. Errors: `find_cluster`'s.
result<cluster> cluster_of_config(const config& c, const number_format& numbers);

/// "3.7 GiB", "512 B".
std::string bytes_text(double bytes);
/// "1.26 s", "3.4 ms".
std::string seconds_text(double seconds);
/// "pp 2 · dp 1 · tp 1".
std::string mesh_text(const mesh& m);
/// "1 node", "384 nodes".
std::string nodes_text(std::uint32_t nodes);
std::string_view to_string(recomputing r);

}  // namespace troupe::planning
