#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/planning/step_prediction.hpp"

namespace troupe::planning {

/// A layout with what it is predicted to do.
struct candidate {
  training_plan plan;
  step_terms terms;
  double step_s = 0, tokens_per_s = 0, mfu = 0, bubble = 0;
  std::int64_t peak_bytes = 0;
};

struct search_result {
  std::vector<candidate> best;  ///< fastest first
  std::uint64_t considered = 0, too_big = 0, simulated = 0;
};

/// Looks for the fastest ways to train `like`'s model and global batch on all devices of `on`: pp, tp, dp,
/// micro-batch, `schedules` with their chunks, recompute; the rest is as in `like`. Layouts that need more than a
/// device's memory are left out. Complete over the powers of two of a micro-batch, chunk counts from 2 to 8, and pp, tp
/// and dp that use every device: a layout is passed over without a simulation only when its lower bound is slower than
/// the last of the `keep` best. Of layouts that differ in what they recompute alone the fastest counts.
/// Errors: `invalid_argument`: nothing fits, with what is missing.
result<search_result> search_layouts(const training_plan& like, const cluster& on,
                                     const std::vector<std::string>& schedules, std::size_t keep);

/// Two sentences: where the best one's step goes, and which term makes the next one slower.
std::string explanation(const search_result& found);

/// "1f1b, pp 8 · dp 6 · tp 8, micro-batch 2, recompute none".
std::string layout_text(const training_plan& plan);

}  // namespace troupe::planning
