#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "actors/schedule/schedule_text.hpp"
#include "runtime/answer.hpp"
#include "runtime/commands.hpp"
#include "runtime/line_file.hpp"
#include "runtime/planning/config_plan.hpp"
#include "runtime/planning/search.hpp"
#include "runtime/trace.hpp"

namespace troupe {

using namespace planning;

namespace {

struct simulation {
  planned_run run;
  placement where;
  step_prediction step;
};

result<simulation> simulate(const simulate_config_request& request) {
  TROUPE_TRY(const auto loaded, load_config(request.config_path, request.overrides));
  TROUPE_TRY(auto run, plan_of_config(loaded.values));
  TROUPE_TRY(auto where, place_plan(run.plan, run.on));
  TROUPE_TRY(auto step, predict_step(run.plan, run.on, where));
  return simulation{std::move(run), std::move(where), std::move(step)};
}

double ms(double seconds) { return seconds * 1e3; }

nlohmann::ordered_json stages_json(const step_prediction& step) {
  auto stages = nlohmann::ordered_json::array();
  for (const auto& s : step.stages)
    stages.push_back({{"layers", s.memory.layers},
                      {"work", ms(s.work_s)},
                      {"bubble", s.bubble},
                      {"peak_bytes", s.memory.bytes()},
                      {"activation_bytes", s.memory.activation_bytes}});
  return stages;
}

// Times in ms, as in the command's other form.
std::string to_json(const simulation& s) {
  const auto& run = s.step.run;
  auto terms = nlohmann::ordered_json::object();
  for (const auto& [name, term] : step_term_names) terms[std::string(name)] = ms(s.step.terms.*term);
  const nlohmann::ordered_json object = {{"schedule", s.step.order.name},
                                         {"stages", s.step.order.stages},
                                         {"micro_batches", s.step.order.micro_batches},
                                         {"chunks", s.step.order.chunks},
                                         {"replicas", s.run.plan.extents.replicas},
                                         {"tensor_shards", s.run.plan.extents.shards},
                                         {"devices", s.run.plan.extents.size()},
                                         {"nodes", s.where.nodes_used()},
                                         {"cluster", s.run.on.name},
                                         {"makespan", ms(run.makespan)},
                                         {"span", ms(run.span)},
                                         {"bubble_makespan", run.bubble_makespan},
                                         {"bubble_span", run.bubble_span},
                                         {"step", ms(s.step.step_s)},
                                         {"terms", terms},
                                         {"tokens_per_s", s.step.tokens_per_s},
                                         {"mfu", s.step.mfu},
                                         {"flops_per_device_per_s", s.step.flops_per_device_per_s},
                                         {"hardware_flops_per_device_per_s", s.step.hardware_flops_per_device_per_s},
                                         {"peak_in_flight", peaks_in_flight(s.step.order)},
                                         {"per_stage", stages_json(s.step)},
                                         {"order", action_names(s.step.order)}};
  return object.dump() + '\n';
}

std::string to_table(const simulation& s) {
  const auto& p = s.run.plan;
  const auto& step = s.step;
  auto text = fmt::format(
      "{}, {} micro-batches, on {} devices of {} ({})\n\n"
      "step {}: {:.0f} tokens/s, {:.4g} TFLOP/s of each device, {:.1f} % of its peak (MFU)\n\n",
      layout_text(p), p.micro_batches(), p.extents.size(), nodes_text(s.where.nodes_used()), s.run.on.name,
      seconds_text(step.step_s), step.tokens_per_s, step.flops_per_device_per_s / 1e12, 100 * step.mfu);
  for (const auto& [name, term] : step_term_names)
    text += fmt::format("{:>20} {:>11} {:6.2f} %\n", name, seconds_text(step.terms.*term),
                        100 * step.terms.*term / step.step_s);
  text += fmt::format("\n{:>5} {:>7} {:>12} {:>8} {:>15} {:>12} {:>12}\n", "stage", "layers", "work", "bubble",
                      "peak in flight", "activations", "memory");
  for (std::uint32_t i = 0; i < step.order.stages; ++i) {
    const auto& stage = step.stages[i];
    text += fmt::format("{:>5} {:>7} {:>12} {:>6.2f} % {:>15} {:>12} {:>12}\n", i, stage.memory.layers,
                        seconds_text(stage.work_s), 100 * stage.bubble, peak_in_flight(step.order, i),
                        bytes_text(static_cast<double>(stage.memory.activation_bytes)),
                        bytes_text(static_cast<double>(stage.memory.bytes())));
  }
  return text;
}

// The pipeline of the slowest replica; its tensor shards go in step, so one row stands for those of a stage.
step_report report_of(const simulation& s) {
  step_report report;
  report.loss = report.grad_norm = std::numeric_limits<double>::quiet_NaN();
  report.tokens_per_s = s.step.tokens_per_s;
  report.step_s = s.step.step_s;
  report.bubble = s.step.run.bubble_makespan;
  report.bubble_ideal = ideal_bubble(s.step.order);
  const auto ns = [](double seconds) { return std::llround(seconds * 1e9); };
  for (std::uint32_t i = 0; i < s.step.order.stages; ++i) {
    shard_timeline line;
    line.shard.stage = static_cast<std::uint16_t>(i);
    for (std::size_t k = 0; k < s.step.order.actions[i].size(); ++k) {
      const auto& when = s.step.run.actions[i][k];
      line.actions.push_back({s.step.order.actions[i][k], ns(when.start), ns(when.end)});
    }
    report.timelines.push_back(std::move(line));
  }
  return report;
}

result<std::string> text_of(const simulate_config_request& request) {
  TROUPE_TRY(const auto done, simulate(request));
  if (!request.trace.empty()) TROUPE_CHECK(replace_file(request.trace, trace_json({report_of(done)})));
  return request.json ? to_json(done) : to_table(done);
}

}  // namespace

int simulate_config_command(const simulate_config_request& request, std::ostream& out, std::ostream& err) {
  return answer(text_of(request), out, err);
}

}  // namespace troupe
