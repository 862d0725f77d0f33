#pragma once

#include <chrono>
#include <string>

#include "actors/run_listener.hpp"

namespace troupe {

/// A line of metrics.jsonl: one JSON object without line end. Numbers read back to the same bits; one that is not
/// finite is null, and the key `note` says so.
std::string metrics_line(const step_report& report);

/// A line of events.jsonl: time (ISO 8601, UTC, ms), kind, shard ("r0/s1/t0", or null: the whole run), incarnation,
/// text.
std::string event_line(const run_event& event);

/// "2026-07-01T12:34:56.789Z".
std::string iso_time(std::chrono::system_clock::time_point time);

}  // namespace troupe
