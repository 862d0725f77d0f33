#pragma once

#include <memory>

#include "kernels/core/result.hpp"
#include "transport/event_loop.hpp"
#include "transport/port_options.hpp"
#include "transport/tensor_port.hpp"

namespace troupe {

/// A port over UCX active messages: one context and worker of its own, driven on `loop`'s thread through UCX's event
/// fd. `loop` and `listener` must outlive it. Errors: `invalid_argument` (device unknown), `system_failure` (UCX's
/// status in `native`, its text and the remedy in `where`).
result<std::unique_ptr<tensor_port>> make_ucx_port(event_loop& loop, const port_options& options, shard_id self,
                                                   port_listener& listener);

/// Environment that must be set before UCX's library is loaded into a process (its constructor reads it).
void set_ucx_environment();

}  // namespace troupe
