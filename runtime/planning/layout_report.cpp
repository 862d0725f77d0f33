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

std::string text_of(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

/// A config's own layout.
struct layout {
  planned_run run;
  placement where;
  step_prediction step;
};

result<layout> layout_of(const config& c) {
  TROUPE_TRY(auto run, plan_of_config(c));
  TROUPE_TRY(auto where, place_plan(run.plan, run.on));
  TROUPE_TRY(auto step, predict_step(run.plan, run.on, where));
  return layout{std::move(run), std::move(where), std::move(step)};
}

std::string verdict(const layout& l) {
  const auto stage = l.step.fullest_stage();
  const auto bytes = static_cast<double>(l.step.peak_bytes());
  return fmt::format("stage {} is the fullest: {} of {} a device{}", stage, bytes_text(bytes),
                     bytes_text(l.run.on.memory_bytes),
                     bytes > l.run.on.memory_bytes ? ": it does not fit; see troupe plan --search" : "");
}

// Where the tensor shards of a stage are, of the first replicas.
std::string places_of(const layout& l, std::uint32_t stage) {
  constexpr std::uint32_t shown = 3;
  std::string text;
  const auto& m = l.run.plan.extents;
  for (std::uint32_t r = 0; r < std::min(m.replicas, shown); ++r) {
    const auto first = l.where.place_of({static_cast<std::uint16_t>(r), static_cast<std::uint16_t>(stage), 0});
    text += fmt::format("{}n{}:{}", r == 0 ? "" : " ", first.node, first.device);
    if (m.shards > 1) text += fmt::format("-{}", first.device + m.shards - 1);
  }
  if (m.replicas > shown) text += fmt::format(" … {} more", m.replicas - shown);
  return text;
}

std::string to_table(const layout& l) {
  const auto& p = l.run.plan;
  auto text = fmt::format("{}, on {} of {} devices ({})\n\n", layout_text(p), nodes_text(l.where.nodes_used()),
                          l.where.grid().devices, l.run.on.name);
  text += fmt::format("{:>5} {:>7} {:>7} {:>14} {:>11} {:>11} {:>11} {:>11} {:>11}  {}\n", "stage", "shards", "layers",
                      "parameters", "values", "gradients", "optimizer", "activations", "together",
                      "node:devices of each replica");
  const auto shards = p.extents.shards == 1 ? std::string("0") : fmt::format("0-{}", p.extents.shards - 1);
  for (std::uint32_t i = 0; i < l.step.order.stages; ++i) {
    const auto& m = l.step.stages[i].memory;
    text += fmt::format("{:>5} {:>7} {:>7} {:>14} {:>11} {:>11} {:>11} {:>11} {:>11}  {}\n", i, shards, m.layers,
                        m.parameters, text_of(m.parameter_bytes), text_of(m.gradient_bytes), text_of(m.state_bytes),
                        text_of(m.activation_bytes), text_of(m.bytes()), places_of(l, i));
  }
  return text + fmt::format("\neach shard of the stage; {}\npredicted: step {}, {:.0f} tokens/s, bubble {:.1f} %\n",
                            verdict(l), seconds_text(l.step.step_s), l.step.tokens_per_s,
                            100 * l.step.run.bubble_makespan);
}

json shards_json(const layout& l) {
  auto shards = json::array();
  const auto& m = l.run.plan.extents;
  for (std::uint32_t i = 0; i < m.stages; ++i)
    for (std::uint32_t t = 0; t < m.shards; ++t) {
      const auto& memory = l.step.stages[i].memory;
      auto places = json::array();
      for (std::uint32_t r = 0; r < m.replicas; ++r) {
        const auto place = l.where.place_of(
            {static_cast<std::uint16_t>(r), static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(t)});
        places.push_back({{"node", place.node}, {"device", place.device}});
      }
      shards.push_back({{"stage", i},
                        {"shard", t},
                        {"layers", memory.layers},
                        {"parameters", memory.parameters},
                        {"parameter_bytes", memory.parameter_bytes},
                        {"gradient_bytes", memory.gradient_bytes},
                        {"optimizer_bytes", memory.state_bytes},
                        {"activation_bytes", memory.activation_bytes},
                        {"bytes", memory.bytes()},
                        {"replicas", std::move(places)}});
    }
  return shards;
}

std::string to_json(const layout& l) {
  auto object = layout_json(l.run.plan);
  object["cluster"] = l.run.on.name;
  object["nodes"] = l.where.nodes_used();
  object["device_memory_bytes"] = l.run.on.memory_bytes;
  object["fits"] = static_cast<double>(l.step.peak_bytes()) <= l.run.on.memory_bytes;
  object["step_s"] = l.step.step_s;
  object["tokens_per_s"] = l.step.tokens_per_s;
  object["bubble_makespan"] = l.step.run.bubble_makespan;
  object["shards"] = shards_json(l);
  return object.dump() + '\n';
}

}  // namespace

result<std::string> layout_report(const config& c, bool as_json) {
  TROUPE_TRY(const auto own, layout_of(c));
  return as_json ? to_json(own) : to_table(own);
}

}  // namespace troupe::planning
