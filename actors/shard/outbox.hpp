#pragma once

#include <algorithm>
#include <vector>

#include "transport/tensor_port.hpp"

namespace troupe {

/// What a shard sends in the open step. With `keep`, every tensor stays referenced until the step is committed, so that
/// a peer's next incarnation can be given it again; receivers take each message once, by what it is. Used by one
/// thread; the lists keep their capacity.
class outbox {
public:
  outbox(shard_id self, std::uint32_t epoch, std::uint32_t incarnation, std::uint64_t step, bool keep)
      : self_(self), epoch_(epoch), incarnation_(incarnation), step_(step), keep_(keep) {}

  void attach(tensor_port& port) { port_ = &port; }
  bool keeps() const noexcept { return keep_; }
  /// What is sent from now on is of a job with this epoch.
  void raise_epoch(std::uint32_t epoch) { epoch_ = std::max(epoch_, epoch); }
  /// The step before is committed: nobody will ask for its messages.
  void begin_step(std::uint64_t step) {
    step_ = step;
    kept_.clear();
  }

  void send(message_kind kind, shard_id to, std::uint32_t index, tensor payload) {
    const message_id id{kind, self_, to, epoch_, incarnation_, step_, index, 0};
    if (keep_) kept_.push_back({id, payload});
    port_->send(id, std::move(payload));
  }
  /// As `send`, but nobody is given it again: what it carries is there for whoever asks.
  void send_once(message_kind kind, shard_id to, std::uint32_t index, tensor payload) {
    port_->send({kind, self_, to, epoch_, incarnation_, step_, index, 0}, std::move(payload));
  }
  /// A message of the open step has been used: its credit returns.
  void consumed(message_kind kind, shard_id from, std::uint32_t index) {
    port_->consumed({kind, from, self_, epoch_, 0, step_, index, 0});
  }
  void consumed(const message_id& id) { port_->consumed(id); }

  /// Sends all that was kept for `to` once more; returns how many messages that were.
  std::size_t send_again(shard_id to) {
    std::size_t sent = 0;
    for (auto& [id, payload] : kept_) {
      if (id.destination != to) continue;
      id.epoch = epoch_;
      port_->send(id, payload);
      ++sent;
    }
    return sent;
  }
  std::size_t kept_bytes() const {
    std::size_t sum = 0;
    for (const auto& m : kept_) sum += m.payload.bytes();
    return sum;
  }

private:
  struct message {
    message_id id;
    tensor payload;
  };
  shard_id self_;
  std::uint32_t epoch_, incarnation_;
  std::uint64_t step_;
  bool keep_;
  tensor_port* port_ = nullptr;
  std::vector<message> kept_;
};

}  // namespace troupe
