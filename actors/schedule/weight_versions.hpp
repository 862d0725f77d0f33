#pragma once

#include "actors/schedule/schedule.hpp"

namespace troupe {

/// Which weights the micro-batches of an asynchronous schedule meet. A version is counted in updates: 0 are the first
/// values.
struct weight_versions {
  std::vector<std::vector<std::uint32_t>> used;  ///< [stage][micro-batch]: by its forward and its backward alike
  std::vector<std::uint32_t> most_kept;          ///< [stage]: that are held at once, the newest included
};

/// Every stage updates its own weights after every backward, and a forward takes the newest: micro-batch j on stage i
/// of p those after max(0, j−(p−1−i)) updates; p−i versions. Source: Harlap et al. 2018, PipeDream, arXiv:1806.03377,
/// section 3.3.
weight_versions pipedream_versions(const schedule& s);

/// Stages update once a step, and micro-batch j of steps of m takes the weights after max(⌊j/m⌋−1, 0) updates, the same
/// on every stage: a delay of one step, two versions. Source: Narayanan et al. 2020, PipeDream-2BW, arXiv:2006.09503,
/// section 3.1.
/// Errors: `invalid_argument` where a stage would need weights that are not there yet: a step must have p−1
/// micro-batches.
result<weight_versions> double_buffered_versions(const schedule& s, std::uint32_t step_micro_batches);

}  // namespace troupe
