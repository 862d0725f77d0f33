#pragma once

#include <vector>

#include "actors/stage/model.hpp"
#include "runtime/command_line.hpp"

namespace troupe {

/// `troupe run`: trains to the end, or says why not. Returns the exit code: 0 done, 2 the config is wrong, 3 the run
/// gave up, 130 interrupted, 143 told to end.
int run_command(const run_request& request, const std::vector<model_definition>& models);

/// `troupe worker`: one worker process of a run, started by its head.
int worker_command(const worker_request& request, const std::vector<model_definition>& models);

}  // namespace troupe
