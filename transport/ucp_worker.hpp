#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <type_traits>

#include "kernels/core/result.hpp"
#include "transport/tensor_port.hpp"

namespace troupe {

/// Owns one `ucp_worker_h`, the progress engine behind a port's endpoints.
/// Only the thread that calls `progress()` may use the worker or its endpoints, and no callback may progress it.
class ucp_worker {
public:
  /// Creates a worker on `context`, which must outlive it. Errors: `out_of_memory`, `system_failure`.
  static result<ucp_worker> make(ucp_context_h context);

  /// Every frame goes to `handler(arg, …)`. Set it before the address leaves the process.
  /// There is one handler id: UCX 1.13 fills its handler table wrongly when there are gaps, and checks no bounds.
  status set_handler(ucp_am_recv_callback_t handler, void* arg);
  result<port_address> address() const;
  result<int> event_fd() const;  ///< Borrowed: UCX closes it.

  /// Runs ready callbacks; returns how many events it handled, 0 when idle.
  unsigned progress() noexcept { return ucp_worker_progress(handle_.get()); }
  /// True when the event fd will become readable at the next event; false when there is more to progress first.
  bool arm() noexcept { return ucp_worker_arm(handle_.get()) == UCS_OK; }
  ucp_worker_h get() const noexcept { return handle_.get(); }  ///< Borrowed, while this lives.

private:
  struct destroy {
    void operator()(ucp_worker_h w) const noexcept { ucp_worker_destroy(w); }
  };
  using handle = std::unique_ptr<std::remove_pointer_t<ucp_worker_h>, destroy>;
  explicit ucp_worker(handle owned) noexcept : handle_(std::move(owned)) {}
  handle handle_;
};

}  // namespace troupe
