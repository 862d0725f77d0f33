#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "actors/schedule/schedule_text.hpp"
#include "actors/schedule/virtual_time.hpp"
#include "runtime/commands.hpp"
#include "runtime/timeline_svg.hpp"

namespace troupe {
namespace {

std::string to_json(const schedule& s) {
  const nlohmann::ordered_json object = {{"name", s.name},
                                         {"stages", s.stages},
                                         {"micro_batches", s.micro_batches},
                                         {"chunks", s.chunks},
                                         {"bubble_ideal", ideal_bubble(s)},
                                         {"peak_in_flight", peaks_in_flight(s)},
                                         {"order", action_names(s)}};
  return object.dump() + '\n';
}

// In unit times: a millisecond for each pass through a stage.
std::string to_svg(const schedule& s) {
  const auto run = run_in_virtual_time(s, stage_costs{});
  if (!run) return "";  // what `make_schedule` returned has a time
  const auto ns = [](double ms) { return std::llround(ms * 1e6); };
  std::vector<shard_timeline> lines(s.stages);
  for (std::uint32_t i = 0; i < s.stages; ++i) {
    lines[i].shard.stage = static_cast<std::uint16_t>(i);
    for (std::size_t k = 0; k < s.actions[i].size(); ++k)
      lines[i].actions.push_back({s.actions[i][k], ns(run->actions[i][k].start), ns(run->actions[i][k].end)});
  }
  return timeline_svg(lines,
                      fmt::format("{}: {} stages{}, {} micro-batches", s.name, s.stages,
                                  s.chunks > 1 ? fmt::format(" of {} chunks", s.chunks) : "", s.micro_batches),
                      fmt::format("Bubble {:.1f} % in unit times", 100 * run->bubble_makespan));
}

}  // namespace

int schedule_command(const schedule_request& request, std::ostream& out, std::ostream& err) {
  const auto made = make_schedule(request.name, {request.stages, request.micro_batches, request.chunks});
  if (!made) {
    err << fmt::format("troupe: {}\n", made.error().where);
    return 2;
  }
  if (request.json) {
    out << to_json(*made);
    return 0;
  }
  out << (request.format == "csv" ? to_csv(*made) : request.format == "svg" ? to_svg(*made) : to_text(*made));
  err << fmt::format("{}: ideal bubble {:.1f} %; {} in flight by stage, at most: {}\n", made->name,
                     100 * ideal_bubble(*made), made->chunks > 1 ? "micro-batches of chunks" : "micro-batches",
                     fmt::join(peaks_in_flight(*made), " "));
  return 0;
}

}  // namespace troupe
