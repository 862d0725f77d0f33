#include "transport/ucx_driver.hpp"

namespace troupe {

namespace {

using namespace std::chrono_literals;
using clock = ucx_engine::clock;
namespace asio = boost::asio;

constexpr auto busy_period = 100ms;      ///< deadlines, and a belt should UCX lose a wake-up
constexpr auto idle_period = 1s;         ///< the belt while nothing but frames from peers may come
constexpr auto slice = 50us;             ///< how long one turn may keep the loop from its other handlers
constexpr unsigned polls_per_look = 16;  ///< a look at the clock costs as much as an idle poll

}  // namespace

status ucx_driver::start() {
  boost::system::error_code failed;
  events_.assign(engine_->event_fd(), failed);
  if (failed) return error{errc::system_failure, "watching UCX's event fd: " + failed.message(), failed.value()};
  post_turn();
  return {};
}

void ucx_driver::stop() {
  if (stopped_) return;
  stopped_ = true;
  events_.release();  // UCX owns the descriptor
  tick_.cancel();
  engine_->mute();
  if (!working_) engine_.reset();
}

void ucx_driver::submit(port_command c) {
  std::lock_guard lock(mutex_);
  commands_.push(std::move(c));
  any_command_.store(true, std::memory_order_release);
  if (!std::exchange(awake_, true)) post_turn();
}

void ucx_driver::run(port_command& c) {
  switch (c.what) {
    case port_command::kind::send:
      return engine_->send(c.id, std::move(c.payload));
    case port_command::kind::consumed:
      return engine_->consumed(c.id);
    case port_command::kind::connect:
      return engine_->connect(c.more->peer, std::move(c.more->where), c.more->credits);
    case port_command::kind::disconnect:
      return engine_->disconnect(c.more->peer);
    case port_command::kind::abandon:
      engine_->abandon(c.more->peer, c.more->why);
      return engine_->settle();  // the next command may connect to the peer's successor
  }
}

void ucx_driver::run_commands() {
  {
    std::lock_guard lock(mutex_);
    std::swap(commands_, batch_);
    any_command_.store(false, std::memory_order_relaxed);
  }
  while (!batch_.empty()) {
    port_command c = batch_.pop();
    if (!stopped_) run(c);
  }
}

unsigned ucx_driver::work() {
  working_ = true;
  unsigned events = engine_->progress();
  if (any_command_.load(std::memory_order_acquire)) {
    run_commands();
    ++events;
  }
  engine_->settle();
  if (events == 0) engine_->flush_credits();
  working_ = false;
  if (stopped_) engine_.reset();
  return events;
}

void ucx_driver::turn() {
  if (stopped_) return;
  const auto began = last_event_ = clock::now();
  bool busy = false;
  for (unsigned poll = 1;; ++poll) {
    const unsigned events = work();
    if (stopped_) return;
    busy |= events > 0;
    if (poll % polls_per_look != 0 && spin_ > 0us) continue;
    const auto now = clock::now();
    if (std::exchange(busy, false)) last_event_ = now;
    if (events == 0 && now - last_event_ >= spin_ && fall_asleep()) return;
    if (now - began >= slice) {
      keep_ticking(now);
      return post_turn();
    }
  }
}

/// False when there is something to do after all.
bool ucx_driver::fall_asleep() {
  if (!engine_->arm()) return false;
  {
    std::lock_guard lock(mutex_);
    if (!commands_.empty()) return false;
    awake_ = false;
  }
  keep_ticking(clock::now());
  if (!std::exchange(waiting_for_event_, true)) {
    events_.async_wait(asio::posix::descriptor_base::wait_read, [self = shared_from_this()](const auto& failed) {
      self->waiting_for_event_ = false;
      if (failed || self->stopped_) return;
      {
        std::lock_guard lock(self->mutex_);
        if (std::exchange(self->awake_, true)) return;  // a turn is posted
      }
      self->turn();
    });
  }
  return true;
}

/// Makes sure of a tick within the period that the engine's state asks for.
void ucx_driver::keep_ticking(clock::time_point now) {
  if (!engine_->any_peer() && !engine_->pending()) return;
  const auto period = engine_->pending() ? clock::duration(busy_period) : clock::duration(idle_period);
  if (tick_running_ && tick_at_ <= now + period) return;
  tick_running_ = true;
  tick_at_ = now + period;
  tick_.expires_at(tick_at_);
  tick_.async_wait([self = shared_from_this()](const auto& cancelled) {
    if (!cancelled && !self->stopped_) self->on_tick();
  });
}

void ucx_driver::on_tick() {
  tick_running_ = false;
  working_ = true;
  engine_->check_deadlines(clock::now());
  working_ = false;
  if (stopped_) return engine_.reset();
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(awake_, true)) return;
  }
  turn();
}

}  // namespace troupe
