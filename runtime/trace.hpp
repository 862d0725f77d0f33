#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "actors/run_listener.hpp"
#include "kernels/core/result.hpp"

namespace troupe {

/// The steps as Chrome JSON, which Perfetto reads: a process is a replica; each shard has a row of what it computed and
/// one of how long it waited between; arrows lead along the messages. Times in µs since the first slice.
///
/// Slices of a row never overlap: one that begins before the end of the one before (there is none such in a report of a
/// single clock) is shortened.
/// Source: "Trace Event Format", Google, sections "Complete Events" and "Flow Events".
std::string trace_json(const std::deque<step_report>& steps);

/// Reads back what `trace_json` wrote; times are then nanoseconds since the first slice.
/// Errors: `invalid_argument`, a sentence that says what is missing.
result<std::deque<step_report>> read_trace(std::string_view json);

}  // namespace troupe
