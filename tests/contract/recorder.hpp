#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "transport/tensor_port.hpp"

namespace troupe::contract {

/// How long a test waits for what must happen; reached only when it never does.
constexpr std::chrono::seconds patience{60};

/// A listener that remembers what it was told and lets a test wait for it.
class recorder : public port_listener {
public:
  struct arrival {
    message_id id;
    tensor payload;
  };

  /// Called for each message, on the port's thread, instead of keeping it.
  std::function<void(const message_id&, tensor)> on_arrival;
  /// Called before room is given; an error refuses.
  std::function<status(const message_id&, const tensor_spec&)> on_destination;

  buffer_pool pool{host_memory()};

  void peer_ready(shard_id) override {
    note([&] { ++ready_; });
  }
  result<tensor> destination(const message_id& id, const tensor_spec& spec) override {
    if (on_destination) TROUPE_CHECK(on_destination(id, spec));
    return tensor::make(pool, spec);
  }
  void arrived(const message_id& id, tensor payload) override {
    if (on_arrival) return on_arrival(id, std::move(payload));
    note([&] { arrivals_.push_back({id, std::move(payload)}); });
  }
  void peer_failed(shard_id, const error& why) override {
    note([&] { failures_.push_back(why); });
  }
  void peer_closed(shard_id) override {
    note([&] { ++closed_; });
  }

  bool wait_ready(std::size_t n = 1) {
    return wait([&] { return ready_ >= n; });
  }
  bool wait_arrivals(std::size_t n) {
    return wait([&] { return arrivals_.size() >= n; });
  }
  bool wait_failed(std::size_t n = 1) {
    return wait([&] { return failures_.size() >= n; });
  }
  bool wait_closed(std::size_t n = 1) {
    return wait([&] { return closed_ >= n; });
  }

  std::vector<arrival> arrivals() const { return read(arrivals_); }
  std::vector<error> failures() const { return read(failures_); }
  std::size_t ready() const { return read(ready_); }
  std::size_t closed() const { return read(closed_); }

  /// Changes what a test's own callbacks remember, and wakes who waits.
  template <class Change>
  void note(Change change) {
    std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();  // still under the lock: who waits may destroy this as soon as it has it
  }
  /// False when `holds`, called under the same lock as `note`, did not come true.
  template <class Condition>
  bool wait(Condition holds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, holds);
  }

private:
  template <class T>
  T read(const T& value) const {
    std::lock_guard lock(mutex_);
    return value;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<arrival> arrivals_;
  std::vector<error> failures_;
  std::size_t ready_ = 0, closed_ = 0;
};

}  // namespace troupe::contract
