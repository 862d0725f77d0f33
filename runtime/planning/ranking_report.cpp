#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/planning/config_plan.hpp"
#include "runtime/planning/layout_json.hpp"
#include "runtime/planning/plan_reports.hpp"
#include "runtime/planning/search.hpp"

namespace troupe::planning {

namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t ranked = 10;  // layouts of a search that are shown

/// What a search looked for and found.
struct ranking {
  planned_run run;
  search_result found;
};

result<ranking> rank(const config& c) {
  TROUPE_TRY(auto run, plan_of_config(c));
  if (run.on.nodes == 0) run.on.nodes = nodes_needed(run.plan.extents, run.on.devices_per_node);
  if (run.on.nodes == 0) return invalid("parallel.tp is more than the devices of a node; set cluster.nodes");
  std::vector<std::string> schedules;
  for (const auto name : runnable_schedule_names()) schedules.emplace_back(name);
  for (const auto* name : {"interleaved", "zb-v"})
    if (std::ranges::find(schedules, name) == schedules.end()) schedules.emplace_back(name);
  TROUPE_TRY(auto found, search_layouts(run.plan, run.on, schedules, ranked));
  return ranking{std::move(run), std::move(found)};
}

bool runs_today(const training_plan& p) {
  const auto names = runnable_schedule_names();
  return std::ranges::find(names, p.schedule) != names.end();
}

std::string to_table(const ranking& r) {
  auto text = fmt::format("{} layouts for {} devices ({}), {} too big for {}, {} simulated\n\n", r.found.considered,
                          r.run.on.nodes * r.run.on.devices_per_node, r.run.on.name, r.found.too_big,
                          bytes_text(r.run.on.memory_bytes), r.found.simulated);
  text += fmt::format("{:>3} {:>12} {:>10} {:>7} {:>8} {:>11}  {}\n", "", "tokens/s", "step", "MFU", "bubble", "memory",
                      "layout (* : simulated only, a run cannot take it yet)");
  for (std::size_t k = 0; k < r.found.best.size(); ++k) {
    const auto& c = r.found.best[k];
    text +=
        fmt::format("{:>3} {:>12.0f} {:>10} {:>5.1f} % {:>6.1f} % {:>11}  {}{}\n", k + 1, c.tokens_per_s,
                    seconds_text(c.step_s), 100 * c.mfu, 100 * c.bubble, bytes_text(static_cast<double>(c.peak_bytes)),
                    layout_text(c.plan), runs_today(c.plan) ? "" : " *");
  }
  return text + '\n' + explanation(r.found) + '\n';
}

std::string to_json(const ranking& r) {
  auto best = json::array();
  for (const auto& c : r.found.best) {
    auto object = layout_json(c.plan);
    object["runs_today"] = runs_today(c.plan);
    object["tokens_per_s"] = c.tokens_per_s;
    object["step_s"] = c.step_s;
    object["mfu"] = c.mfu;
    object["bubble_makespan"] = c.bubble;
    object["peak_bytes"] = c.peak_bytes;
    for (const auto& [name, term] : step_term_names) object["terms_s"][std::string(name)] = c.terms.*term;
    best.push_back(std::move(object));
  }
  const json object = {{"cluster", r.run.on.name},         {"devices", r.run.on.nodes * r.run.on.devices_per_node},
                       {"considered", r.found.considered}, {"too_big", r.found.too_big},
                       {"simulated", r.found.simulated},   {"explanation", explanation(r.found)},
                       {"layouts", std::move(best)}};
  return object.dump() + '\n';
}

}  // namespace

result<std::string> ranking_report(const config& c, bool as_json) {
  TROUPE_TRY(const auto found, rank(c));
  return as_json ? to_json(found) : to_table(found);
}

}  // namespace troupe::planning
