#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "actors/schedule/schedule_text.hpp"
#include "actors/schedule/virtual_time.hpp"
#include "runtime/commands.hpp"

namespace troupe {
namespace {

constexpr std::uint64_t most_actions = 10'000'000;  // what one can still wait for and read

std::vector<std::uint32_t> peaks(const schedule& s) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < s.stages; ++i) all.push_back(peak_in_flight(s, i));
  return all;
}

std::string to_json(const schedule& s) {
  auto order = nlohmann::ordered_json::array();
  for (const auto& stage : s.actions) {
    auto names = nlohmann::ordered_json::array();
    for (const auto& a : stage) names.push_back(to_string(a));
    order.push_back(std::move(names));
  }
  const nlohmann::ordered_json object = {{"name", s.name},
                                         {"stages", s.stages},
                                         {"micro_batches", s.micro_batches},
                                         {"bubble_ideal", ideal_bubble(s)},
                                         {"peak_in_flight", peaks(s)},
                                         {"order", std::move(order)}};
  return object.dump();
}

}  // namespace

int schedule_command(const schedule_request& request, std::ostream& out, std::ostream& err) {
  if (std::uint64_t{2} * request.stages * request.micro_batches > most_actions) {
    err << fmt::format("troupe: {} stages with {} micro-batches are more than {} actions; ask for fewer\n",
                       request.stages, request.micro_batches, most_actions);
    return 2;
  }
  const auto made = make_schedule(request.name, {request.stages, request.micro_batches});
  if (!made) {
    err << fmt::format("troupe: {}\n", made.error().where);
    return 2;
  }
  if (request.json) {
    out << to_json(*made) << '\n';
    return 0;
  }
  out << to_text(*made);
  err << fmt::format("{}: ideal bubble {:.1f} %; micro-batches in flight by stage, at most: {}\n", made->name,
                     100 * ideal_bubble(*made), fmt::join(peaks(*made), " "));
  return 0;
}

}  // namespace troupe
