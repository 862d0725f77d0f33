#pragma once

#include <ostream>

#include "runtime/command_line.hpp"

// The commands that only look at things. Each writes data to `out`, words for people to `err`, and returns the
// process's exit code: 0, or 2 where the request cannot be met.

namespace troupe {

/// Prints, or draws, the order of actions on each stage.
int schedule_command(const schedule_request& request, std::ostream& out, std::ostream& err);

/// Prints what a schedule takes in virtual time.
int simulate_command(const simulate_request& request, std::ostream& out, std::ostream& err);

/// Prints what one step of a config takes in virtual time, on the config's cluster.
int simulate_config_command(const simulate_config_request& request, std::ostream& out, std::ostream& err);

/// Prints what each shard of a config holds and where it goes, or the fastest layouts that would fit.
int plan_command(const plan_request& request, std::ostream& out, std::ostream& err);

/// Examines the machine. 0 also where something is missing: the report is the result.
int doctor_command(const doctor_request& request, std::ostream& out, std::ostream& err);

/// Draws RUN_DIR/trace.json as an HTML page and prints the page's path.
int trace_show_command(const trace_show_request& request, std::ostream& out, std::ostream& err);

/// Prints every setting of a run, its value and where that came from.
int dry_run_command(const run_request& request, std::ostream& out, std::ostream& err);

}  // namespace troupe
