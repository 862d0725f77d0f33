#include "actors/schedule/schedule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace troupe {

namespace {

using generator = schedule (*)(schedule_shape);
struct named_generator {
  std::string_view name;
  generator make;
};
constexpr std::array generators{named_generator{"gpipe", make_gpipe}, named_generator{"1f1b", make_1f1b}};

schedule empty_schedule(std::string_view name, schedule_shape shape) {
  return {std::string(name), shape.stages, shape.micro_batches, std::vector<std::vector<action>>(shape.stages)};
}

// Unit times: a forward 1, a whole backward 2, each half of it 1.
double unit_time(pass what) { return what == pass::backward ? 2.0 : 1.0; }

// When each action of a schedule starts and ends if every action runs as early as its inputs allow.
class unit_timeline {
 public:
  explicit unit_timeline(const schedule& s)
      : schedule_(s), forward_end_(s.stages * s.micro_batches, -1), backward_end_(forward_end_) {
    std::vector<std::size_t> cursor(s.stages, 0);
    std::vector<double> clock(s.stages, 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t stage = 0; stage < s.stages; ++stage)
        while (cursor[stage] < s.actions[stage].size() && run(stage, s.actions[stage][cursor[stage]], clock[stage])) {
          ++cursor[stage];
          moved = true;
        }
    }
    makespan = *std::max_element(clock.begin(), clock.end());
  }
  double makespan = 0, busy = 0;

 private:
  double& end_of(std::vector<double>& ends, std::uint32_t stage, std::uint32_t mb) {
    return ends[stage * schedule_.micro_batches + mb];
  }
  // The time from which `a` may run, or negative while an input is missing.
  double ready(std::uint32_t stage, const action& a) {
    if (a.what == pass::forward) return stage == 0 ? 0 : end_of(forward_end_, stage - 1, a.micro_batch);
    if (a.what == pass::backward_weight) return end_of(backward_end_, stage, a.micro_batch);
    return stage + 1 == schedule_.stages ? end_of(forward_end_, stage, a.micro_batch)
                                         : end_of(backward_end_, stage + 1, a.micro_batch);
  }
  bool run(std::uint32_t stage, const action& a, double& clock) {
    const double from = ready(stage, a);
    if (from < 0) return false;
    clock = std::max(clock, from) + unit_time(a.what);
    busy += unit_time(a.what);
    if (a.what == pass::forward) end_of(forward_end_, stage, a.micro_batch) = clock;
    if (a.what == pass::backward || a.what == pass::backward_input)
      end_of(backward_end_, stage, a.micro_batch) = clock;
    return true;
  }

  const schedule& schedule_;
  std::vector<double> forward_end_, backward_end_;
};

}  // namespace

std::string to_string(const action& a) {
  constexpr std::string_view letters = "FBIW";
  return fmt::format("{}{}", letters[static_cast<std::size_t>(a.what)], a.micro_batch);
}

schedule make_gpipe(schedule_shape shape) {
  auto s = empty_schedule("gpipe", shape);
  for (auto& stage : s.actions) {
    for (std::uint32_t m = 0; m < shape.micro_batches; ++m) stage.push_back({pass::forward, m, 0});
    for (std::uint32_t m = 0; m < shape.micro_batches; ++m) stage.push_back({pass::backward, m, 0});
  }
  return s;
}

schedule make_1f1b(schedule_shape shape) {
  auto s = empty_schedule("1f1b", shape);
  for (std::uint32_t i = 0; i < shape.stages; ++i) {
    auto& stage = s.actions[i];
    const auto warm_up = std::min(shape.stages - 1 - i, shape.micro_batches);
    for (std::uint32_t m = 0; m < warm_up; ++m) stage.push_back({pass::forward, m, 0});
    for (std::uint32_t m = warm_up; m < shape.micro_batches; ++m) {
      stage.push_back({pass::forward, m, 0});
      stage.push_back({pass::backward, m - warm_up, 0});
    }
    for (auto m = shape.micro_batches - warm_up; m < shape.micro_batches; ++m) stage.push_back({pass::backward, m, 0});
  }
  return s;
}

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const auto& g : generators) names.push_back(g.name);
  return names;
}

result<schedule> make_schedule(std::string_view name, schedule_shape shape) {
  if (shape.stages == 0 || shape.micro_batches == 0)
    return invalid("a schedule needs at least one stage and one micro-batch");
  for (const auto& g : generators)
    if (g.name == name) return g.make(shape);
  return invalid(fmt::format("no schedule is named '{}'; there are: {}", name, fmt::join(schedule_names(), ", ")));
}

std::uint32_t peak_in_flight(const schedule& s, std::uint32_t stage) {
  std::uint32_t now = 0, peak = 0;
  for (const auto& a : s.actions[stage]) {
    if (a.what == pass::forward) peak = std::max(peak, ++now);
    if (a.what == pass::backward || a.what == pass::backward_weight) --now;
  }
  return peak;
}

double ideal_bubble(const schedule& s) {
  const unit_timeline timeline(s);
  return 1 - timeline.busy / (timeline.makespan * s.stages);
}

std::string to_text(const schedule& s) {
  std::string text;
  for (std::uint32_t i = 0; i < s.stages; ++i) {
    text += fmt::format("s{:<3}", i);
    for (const auto& a : s.actions[i]) text += " " + to_string(a);
    text += '\n';
  }
  return text;
}

}  // namespace troupe
