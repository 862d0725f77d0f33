#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "kernels/collectives/cuda/nccl_library.hpp"
#include "kernels/collectives/host_communicator.hpp"

namespace troupe::group {

/// Owns one `ncclComm_t` and the thread that watches it and, healthy or not, ends it. Made non-blocking: only such a
/// communicator can be aborted at any point, and no call on it waits for other members.
class nccl_link {
public:
  /// Collective over the host group's members. Errors: `invalid_argument`, `collective_aborted`, `device_lost`.
  static result<nccl_link> make(int device_index, cudaStream_t stream, std::unique_ptr<host_communicator> host);
  nccl_link(nccl_link&&) noexcept = default;
  /// Ends the communicator; waits for that, but little longer than the group's deadline.
  ~nccl_link();

  host_communicator& host() const noexcept;
  /// Enqueues by `call`, then waits until NCCL has put its kernels on the stream: before, nothing else may follow.
  status enqueue(std::string_view what, const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& call);
  void abort() noexcept;

private:
  struct state;
  explicit nccl_link(std::shared_ptr<state> owned);
  std::shared_ptr<state> state_;  // shared with the thread, which may outlive this object where NCCL's abort hangs
  std::thread watcher_;
};

}  // namespace troupe::group
