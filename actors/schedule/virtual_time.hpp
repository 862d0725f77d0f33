#pragma once

#include <functional>

#include "actors/schedule/schedule.hpp"

namespace troupe {

/// What the work of one micro-batch costs, in any one unit of time.
struct stage_costs {
  double forward = 1, backward_input = 1, backward_weight = 1;  ///< through one stage's layers: all its chunks together
  double hop = 0;                                               ///< of a tensor from one stage to another
};

/// When an action ran.
struct time_interval {
  double start = 0, end = 0;
};

/// A schedule as it ran in virtual time, in the unit of its costs.
struct virtual_run {
  std::vector<std::vector<time_interval>> actions;  ///< [stage][index], beside the schedule's
  double makespan = 0;  ///< from the first start anywhere to the last end anywhere: what a step with a barrier pays
  double span = 0;      ///< the longest that any one stage takes from its first start to its last end
  double bubble_makespan = 0;  ///< 1 − work / makespan, the work being a stage's mean
  double bubble_span = 0;      ///< 1 − work / span: the "bubble rate" of arXiv:2401.10241, section 4
};

/// How long action `a` of a stage takes, and how long a tensor is on its way between two different stages. Not
/// negative.
using action_time = std::function<double(std::uint32_t stage, const action& a)>;
using hop_time = std::function<double(std::uint32_t from, std::uint32_t to)>;

/// Runs `s`: each stage alone and in its order, each action as soon as its inputs have arrived; sending takes nobody's
/// time. Asks for each time once. Errors: what `validate` says.
result<virtual_run> run_in_virtual_time(const schedule& s, const action_time& time, const hop_time& hop);
/// Every stage alike, a chunk its share of a stage.
result<virtual_run> run_in_virtual_time(const schedule& s, const stage_costs& costs);

/// The idle share of the makespan in unit times, hops free: (p−1)/(m+p−1) for gpipe and 1f1b. `s` must be valid.
double ideal_bubble(const schedule& s);

}  // namespace troupe
