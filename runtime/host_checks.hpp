#pragma once

#include "kernels/core/result.hpp"
#include "runtime/config.hpp"

namespace troupe {

/// Whether this machine can host the run: cores for its shards, room in /dev/shm for UCX where workers are processes.
/// Errors: `invalid_argument`, one sentence with the figures and the keys that would change it.
status check_host(const config& c);

}  // namespace troupe
