#include "actors/supervisor/supervisor_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "actors/schedule/virtual_time.hpp"

namespace troupe {

std::uint64_t supervisor_state::granted() const noexcept {
  return std::min<std::uint64_t>(settings_->steps, next_step_ + settings_->grant_ahead);
}

std::optional<committed_step> supervisor_state::take(shard_id shard, shard_step part, std::int64_t now_ns) {
  if (!settings_->extents.holds(shard) || part.step != next_step_) return std::nullopt;
  auto& place = finished_[settings_->extents.rank_of(shard)];
  if (place) return std::nullopt;
  place = std::move(part);
  if (!std::all_of(finished_.begin(), finished_.end(), [](const auto& f) { return f.has_value(); }))
    return std::nullopt;
  return commit(now_ns);
}

committed_step supervisor_state::commit(std::int64_t now_ns) {
  committed_step done;
  auto& report = done.report;
  report.step = next_step_;
  std::vector<stage::parameter_norm> norms;
  for (auto& part : finished_) {
    if (part->timeline.shard.shard == 0)
      for (float loss : part->losses) report.loss += static_cast<double>(loss);
    norms.insert(norms.end(), part->norms.begin(), part->norms.end());
    report.timelines.push_back(std::move(part->timeline));
    part.reset();
  }
  std::stable_sort(norms.begin(), norms.end(), [](const auto& a, const auto& b) { return a.parameter < b.parameter; });
  double squared = 0;
  for (const auto& n : norms) squared += n.squared;
  report.grad_norm = std::sqrt(squared);

  done.update.step = next_step_;
  done.update.learning_rate = settings_->learning_rate(next_step_);
  const bool too_long = settings_->clip > 0 && report.grad_norm > settings_->clip;
  done.update.gradient_scale = too_long ? static_cast<float>(settings_->clip / report.grad_norm) : 1.0F;

  report.learning_rate = done.update.learning_rate;
  report.step_s = static_cast<double>(now_ns - last_commit_ns_) * 1e-9;
  report.tokens_per_s = report.step_s > 0 ? static_cast<double>(settings_->target_rows) / report.step_s : 0;
  report.bubble = measured_bubble(report.timelines);
  report.bubble_ideal = ideal_bubble(settings_->plan);
  last_commit_ns_ = now_ns;
  ++next_step_;
  return done;
}

std::string culprit_sentence(shard_id shard, const std::string& node, int pid, const std::string& cause,
                             const progress_cell& cell) {
  const auto who = pid > 0 ? fmt::format("shard {} on {} (pid {})", to_string(shard), node, pid)
                           : fmt::format("shard {} on {}", to_string(shard), node);
  return fmt::format("{}: {} {}; the others waited", who, cause, to_string(cell));
}

std::string cause_of(const process_end& end) {
  return end.signal != 0 ? fmt::format("killed by signal {}", end.signal)
                         : fmt::format("ended with exit code {}", end.code);
}

}  // namespace troupe
