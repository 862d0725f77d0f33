#include "actors/schedule/virtual_time.hpp"

#include <algorithm>

#include "actors/schedule/replay.hpp"
#include "actors/schedule/validate.hpp"

namespace troupe {

namespace {

class clockwork {
public:
  clockwork(const schedule& s, const action_time& time, const hop_time& hop)
      : s_(s), time_(time), hop_(hop), activation_(s, missing), gradient_(s, missing), now_(s.stages, 0), work_(now_) {
    run_.actions.resize(s.stages);
  }

  virtual_run run() {
    replay(s_, [&](std::uint32_t stage, const action& a) { return run_action(stage, a); });
    double first = 0, last = 0, work = 0;
    for (std::uint32_t i = 0; i < s_.stages; ++i) {
      const auto& line = run_.actions[i];
      first = i == 0 ? line.front().start : std::min(first, line.front().start);
      last = std::max(last, line.back().end);
      run_.span = std::max(run_.span, line.back().end - line.front().start);
      work += work_[i] / s_.stages;
    }
    run_.makespan = last - first;
    run_.bubble_makespan = run_.makespan > 0 ? 1 - work / run_.makespan : 0;
    run_.bubble_span = run_.span > 0 ? 1 - work / run_.span : 0;
    return std::move(run_);
  }

private:
  static constexpr double missing = -1;

  // When what `a` needs of another stage is here; `missing` while it is not. What it needs of its own stage is before
  // it.
  double arrival(std::uint32_t v, const action& a) {
    if (a.what == pass::forward) return v == 0 ? 0 : activation_.at(v, a.micro_batch);
    if (a.what == pass::backward_weight || v + 1 == s_.virtual_stages()) return 0;
    return gradient_.at(v, a.micro_batch);
  }
  // Marks what left `stage` at `end` with its arrival.
  void send(std::uint32_t stage, std::uint32_t to, per_micro_batch<double>& what, std::uint32_t micro_batch,
            double end) {
    const auto receiver = place_of(s_, to).stage;
    what.at(to, micro_batch) = end + (receiver == stage ? 0 : hop_(stage, receiver));
  }
  bool run_action(std::uint32_t stage, const action& a) {
    const auto v = s_.virtual_stage(stage, a.chunk);
    const auto from = arrival(v, a);
    if (from == missing) return false;
    const auto start = std::max(now_[stage], from), length = time_(stage, a), end = start + length;
    now_[stage] = end;
    work_[stage] += length;
    run_.actions[stage].push_back({start, end});
    if (a.what == pass::forward) {
      if (v + 1 < s_.virtual_stages()) send(stage, v + 1, activation_, a.micro_batch, end);
    } else if (a.what != pass::backward_weight && v > 0) {
      send(stage, v - 1, gradient_, a.micro_batch, end);
    }
    return true;
  }

  const schedule& s_;
  const action_time& time_;
  const hop_time& hop_;
  per_micro_batch<double> activation_, gradient_;  // arrival of each virtual stage's inputs
  std::vector<double> now_, work_;                 // [stage]
  virtual_run run_;
};

}  // namespace

result<virtual_run> run_in_virtual_time(const schedule& s, const action_time& time, const hop_time& hop) {
  TROUPE_CHECK(validate(s));
  return clockwork(s, time, hop).run();
}

result<virtual_run> run_in_virtual_time(const schedule& s, const stage_costs& costs) {
  const double share = 1.0 / s.chunks;
  const double times[] = {costs.forward * share, (costs.backward_input + costs.backward_weight) * share,
                          costs.backward_input * share, costs.backward_weight * share};  // [pass]
  return run_in_virtual_time(
      s, [&](std::uint32_t, const action& a) { return times[static_cast<std::size_t>(a.what)]; },
      [&](std::uint32_t, std::uint32_t) { return costs.hop; });
}

double ideal_bubble(const schedule& s) {
  const auto run = run_in_virtual_time(s, stage_costs{});
  return run ? run->bubble_makespan : 0;
}

}  // namespace troupe
