#include "runtime/run_records.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace troupe {
namespace {

using json = nlohmann::ordered_json;

// Text that is not UTF-8 (a user's exception may carry any bytes) must not stop a line from being written.
std::string one_line(const json& object) { return object.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

std::string metrics_line(const step_report& r) {
  json line = {{"step", r.step},
               {"loss", r.loss},
               {"grad_norm", r.grad_norm},
               {"lr", r.learning_rate},
               {"tokens_per_s", r.tokens_per_s},
               {"step_s", r.step_s},
               {"bubble", r.bubble},
               {"bubble_ideal", r.bubble_ideal},
               {"restarts", r.restarts}};
  std::string note;
  for (const auto& [key, value] : line.items())
    if (value.is_number_float() && !std::isfinite(value.get<double>()))
      note += fmt::format("{}{} is {}", note.empty() ? "" : ", ", key, value.get<double>());
  if (!note.empty()) line["note"] = note;
  return one_line(line);  // JSON has no inf and nan: the library writes null
}

std::string event_line(const run_event& e) {
  const json shard = e.about_shard ? json(to_string(e.shard)) : json(nullptr);
  return one_line({{"time", iso_time(e.time)},
                   {"kind", std::string(to_string(e.kind))},
                   {"shard", shard},
                   {"incarnation", e.incarnation},
                   {"text", e.text}});
}

std::string iso_time(std::chrono::system_clock::time_point time) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time);
  const auto second = std::chrono::floor<std::chrono::seconds>(ms);
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(second)),
                     (ms - second).count());
}

}  // namespace troupe
