#pragma once

#include <atomic>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <mutex>

#include "transport/event_loop.hpp"
#include "transport/fifo.hpp"
#include "transport/ucx_engine.hpp"

namespace troupe {

/// A call from another thread, on its way to the loop.
struct port_command {
  enum class kind : std::uint8_t { send, consumed, connect, disconnect, abandon } what;
  message_id id{};
  tensor payload{};
  struct rare {
    shard_id peer;
    port_address where;
    std::uint32_t credits = 0;
    error why;
  };
  std::unique_ptr<rare> more{};  ///< of connect, disconnect, abandon
};

/// Drives one engine on the loop's thread: polls while there is work and `spin` longer, then sleeps on UCX's event fd.
/// Handlers on the loop keep it alive; `stop` ends it.
class ucx_driver : public std::enable_shared_from_this<ucx_driver> {
public:
  ucx_driver(event_loop& loop, const port_options& options, std::unique_ptr<ucx_engine> engine)
      : loop_(loop), spin_(options.spin), engine_(std::move(engine)), events_(loop.context()), tick_(loop.context()) {}

  status start();
  /// Ends everything; on the loop's thread. Within a callback of the engine it takes effect when that has returned.
  void stop();
  void submit(port_command c);
  template <class Call>
  void run_here(Call call);
  ucx_engine& engine() noexcept { return *engine_; }
  event_loop& loop() noexcept { return loop_; }

private:
  void post_turn() {
    boost::asio::post(loop_.context(), [self = shared_from_this()] { self->turn(); });
  }
  void turn();
  unsigned work();
  void run_commands();
  void run(port_command& c);
  bool fall_asleep();
  void keep_ticking(ucx_engine::clock::time_point now);
  void on_tick();

  event_loop& loop_;
  const std::chrono::microseconds spin_;
  std::unique_ptr<ucx_engine> engine_;
  boost::asio::posix::stream_descriptor events_;
  boost::asio::steady_timer tick_;
  bool waiting_for_event_ = false;
  bool tick_running_ = false;
  ucx_engine::clock::time_point tick_at_;
  ucx_engine::clock::time_point last_event_;
  bool working_ = false;  ///< within the engine
  bool stopped_ = false;

  std::mutex mutex_;
  fifo<port_command> commands_;  // under the mutex
  bool awake_ = true;            // under the mutex: a turn runs or is posted, it will see the commands
  std::atomic<bool> any_command_ = false;
  fifo<port_command> batch_;
};

/// Runs `call` on the engine at once; on the loop's thread, perhaps within a callback of the engine.
template <class Call>
void ucx_driver::run_here(Call call) {
  if (stopped_) return;
  if (working_) return call(*engine_);
  working_ = true;
  call(*engine_);
  engine_->settle();
  working_ = false;
  if (stopped_) return engine_.reset();
  std::lock_guard lock(mutex_);
  if (!std::exchange(awake_, true)) post_turn();
}

}  // namespace troupe
