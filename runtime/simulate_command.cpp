#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "actors/schedule/schedule_text.hpp"
#include "actors/schedule/virtual_time.hpp"
#include "runtime/answer.hpp"
#include "runtime/commands.hpp"

namespace troupe {
namespace {

constexpr double longest_ms = 1e9;  // so that no sum of many loses a thousandth of one

/// "f=1.5,bi=1,bw=1,hop=0.1", each at most once and in any order; what is not named keeps its unit time.
result<stage_costs> parse_costs(std::string_view text) {
  stage_costs costs;
  std::map<std::string_view, double*> open = {
      {"f", &costs.forward}, {"bi", &costs.backward_input}, {"bw", &costs.backward_weight}, {"hop", &costs.hop}};
  for (bool more = !text.empty(); more;) {
    const auto comma = text.find(',');
    const auto entry = text.substr(0, comma), name = entry.substr(0, entry.find('='));
    more = comma != text.npos;
    if (more) text.remove_prefix(comma + 1);
    const auto place = open.find(name);
    if (place == open.end() || name.size() == entry.size())
      return invalid(fmt::format("--cost: '{}' is none of f=, bi=, bw= and hop=, or comes twice", entry));
    const auto number = entry.substr(name.size() + 1);
    const auto* end = number.data() + number.size();
    const auto read = std::from_chars(number.data(), end, *place->second);
    if (read.ec != std::errc() || read.ptr != end || !(*place->second >= 0 && *place->second <= longest_ms))
      return invalid(fmt::format("--cost: {} must be a number of ms from 0 to {}, not '{}'", name, longest_ms, number));
    open.erase(place);
  }
  if (costs.forward + costs.backward_input + costs.backward_weight == 0)
    return invalid("--cost: f, bi and bw are all 0; give at least one of them a time");
  return costs;
}

struct simulation {
  schedule plan;
  stage_costs costs;
  virtual_run run;
};

result<simulation> simulate(const simulate_request& request) {
  simulation s;
  TROUPE_TRY(s.costs, parse_costs(request.cost));
  TROUPE_TRY(s.plan, make_schedule(request.schedule, {request.stages, request.micro_batches, request.chunks}));
  TROUPE_TRY(s.run, run_in_virtual_time(s.plan, s.costs));
  return s;
}

std::string to_json(const simulation& s) {
  const nlohmann::ordered_json object = {
      {"schedule", s.plan.name},
      {"stages", s.plan.stages},
      {"micro_batches", s.plan.micro_batches},
      {"chunks", s.plan.chunks},
      {"cost",
       {{"f", s.costs.forward}, {"bi", s.costs.backward_input}, {"bw", s.costs.backward_weight}, {"hop", s.costs.hop}}},
      {"makespan", s.run.makespan},
      {"span", s.run.span},
      {"bubble_makespan", s.run.bubble_makespan},
      {"bubble_span", s.run.bubble_span},
      {"peak_in_flight", peaks_in_flight(s.plan)},
      {"order", action_names(s.plan)}};
  return object.dump() + '\n';
}

std::string to_table(const simulation& s) {
  auto text = fmt::format(
      "{}: {} stages, {} chunk{} each, {} micro-batches; ms: f {}, bi {}, bw {}, hop {}\n\n"
      "makespan {:12.3f} ms, idle {:5.2f} %   first start anywhere to last end anywhere\n"
      "span     {:12.3f} ms, idle {:5.2f} %   the longest first start to last end of one stage\n\n"
      "{:>5} {:>14} {:>12} {:>12} {:>15}\n",
      s.plan.name, s.plan.stages, s.plan.chunks, s.plan.chunks == 1 ? "" : "s", s.plan.micro_batches, s.costs.forward,
      s.costs.backward_input, s.costs.backward_weight, s.costs.hop, s.run.makespan, 100 * s.run.bubble_makespan,
      s.run.span, 100 * s.run.bubble_span, "stage", "peak in flight", "starts at ms", "ends at ms", "idle between ms");
  for (std::uint32_t i = 0; i < s.plan.stages; ++i) {
    const auto& line = s.run.actions[i];
    double idle = 0;
    for (std::size_t k = 1; k < line.size(); ++k) idle += line[k].start - line[k - 1].end;
    text += fmt::format("{:>5} {:>14} {:>12.3f} {:>12.3f} {:>15.3f}\n", i, peak_in_flight(s.plan, i),
                        line.front().start, line.back().end, idle);
  }
  return text;
}

result<std::string> text_of(const simulate_request& request) {
  TROUPE_TRY(const auto done, simulate(request));
  return request.json ? to_json(done) : to_table(done);
}

}  // namespace

int simulate_command(const simulate_request& request, std::ostream& out, std::ostream& err) {
  return answer(text_of(request), out, err);
}

}  // namespace troupe
