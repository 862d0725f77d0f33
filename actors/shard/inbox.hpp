#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "transport/tensor_port.hpp"

namespace troupe {

/// Something that a shard's surroundings tell it about its data.
struct arrival {
  enum class kind : std::uint8_t { tensor_message, batch, data_failed, peer_ready, peer_closed, peer_failed };
  kind what = kind::tensor_message;
  message_id id;  ///< of a tensor message; of a batch: step and micro-batch
  tensor value;   ///< the payload, or the batch's input
  tensor target;  ///< of a batch
  shard_id peer;
  error why;  ///< of data_failed and peer_failed
};

/// Where tensors wait for the shard's thread: they never enter a CAF message. Any thread pushes; the owner drains. The
/// notification runs on the pushing thread, once per transition from empty, outside the lock. Queues keep their
/// capacity.
class inbox {
public:
  explicit inbox(std::function<void()> notify) : notify_(std::move(notify)) {}

  void push(arrival a) {
    bool was_empty = false;
    {
      std::lock_guard lock(mutex_);
      was_empty = waiting_.empty();
      waiting_.push_back(std::move(a));
    }
    if (was_empty) notify_();
  }
  /// Moves everything that waits into `out`, which is cleared first.
  void drain(std::vector<arrival>& out) {
    out.clear();
    std::lock_guard lock(mutex_);
    std::swap(out, waiting_);
  }

private:
  std::function<void()> notify_;
  std::mutex mutex_;
  std::vector<arrival> waiting_;
};

}  // namespace troupe
