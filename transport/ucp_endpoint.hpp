#pragma once

#include <ucp/api/ucp.h>

#include <memory>

#include "kernels/core/result.hpp"
#include "transport/tensor_port.hpp"

namespace troupe {

/// Owns one `ucp_ep_h`: the way to one peer. It reports failures (error mode PEER), can therefore be force-closed, and
/// must be closed and `finished()` before it is destroyed: until then UCX may still read its operations' memory.
class ucp_endpoint {
public:
  /// An endpoint to the worker whose address is `where`; `alarm` is set when UCX reports its failure.
  /// Errors: `peer_unreachable`.
  static result<std::unique_ptr<ucp_endpoint>> make(ucp_worker_h worker, const port_address& where, bool& alarm);
  ucp_endpoint(const ucp_endpoint&) = delete;
  ucp_endpoint& operator=(const ucp_endpoint&) = delete;

  /// Starts to push everything sent so far out of this process; then `flushed()`, or `failure()`.
  void flush() noexcept;
  bool flushed() noexcept { return flush_.finished(); }
  /// Starts to close by force: every pending operation ends, most as cancelled. Never from within a UCX callback.
  /// (UCX's gentle close loses rendezvous sends over shared memory and cannot be hurried once it has begun.)
  void close() noexcept;
  /// True once the close is complete and no operation is left.
  bool finished() noexcept { return close_.finished() && flush_.finished() && operations_ == 0; }

  ucp_ep_h get() const noexcept { return handle_; }
  /// What UCX has reported about this endpoint; a hint that may come late or never.
  ucs_status_t failure() const noexcept { return failure_; }
  void note_failure(ucs_status_t status) noexcept {
    if (failure_ == UCS_OK) failure_ = status;
    alarm_ = true;
  }
  void begin_operation() noexcept { ++operations_; }
  void end_operation() noexcept { --operations_; }

private:
  /// A request of UCX's that is polled and not called back.
  class polled_request {
  public:
    void hold(void* request) noexcept { request_ = UCS_PTR_IS_PTR(request) ? request : nullptr; }
    bool finished() noexcept;

  private:
    void* request_ = nullptr;
  };

  explicit ucp_endpoint(bool& alarm) noexcept : alarm_(alarm) {}
  static void on_failure(void* endpoint, ucp_ep_h, ucs_status_t status);

  bool& alarm_;
  ucp_ep_h handle_ = nullptr;
  polled_request flush_, close_;
  ucs_status_t failure_ = UCS_OK;
  unsigned operations_ = 0;  ///< sends that UCX has not completed
};

}  // namespace troupe
