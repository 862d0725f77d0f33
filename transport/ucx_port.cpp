#include "transport/ucx_port.hpp"

#include <fmt/format.h>

#include <atomic>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <future>
#include <mutex>

#include "transport/fifo.hpp"
#include "transport/ucx_engine.hpp"

namespace troupe {

namespace {

using namespace std::chrono_literals;
using clock = ucx_engine::clock;
namespace asio = boost::asio;

constexpr auto busy_period = 100ms;     ///< deadlines, and a belt should UCX lose a wake-up
constexpr auto idle_period = 1s;        ///< the belt while nothing but frames from peers may come
constexpr auto slice = 50us;            ///< how long one turn may keep the loop from its other handlers
constexpr unsigned polls_per_look = 16; ///< a look at the clock costs as much as an idle poll

/// A call from another thread, on its way to the loop.
struct command {
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
class driver : public std::enable_shared_from_this<driver> {
 public:
  driver(event_loop& loop, const port_options& options, std::unique_ptr<ucx_engine> engine)
      : loop_(loop),
        spin_(options.spin),
        engine_(std::move(engine)),
        events_(loop.context()),
        tick_(loop.context()) {}

  status start();
  /// Ends everything; on the loop's thread. Within a callback of the engine it takes effect when that has returned.
  void stop();
  void submit(command c);
  template <class Call>
  void run_here(Call call);
  ucx_engine& engine() noexcept { return *engine_; }
  event_loop& loop() noexcept { return loop_; }

 private:
  void post_turn() {
    asio::post(loop_.context(), [self = shared_from_this()] { self->turn(); });
  }
  void turn();
  unsigned work();
  void run_commands();
  void run(command& c);
  bool fall_asleep();
  void keep_ticking(clock::time_point now);
  void on_tick();

  event_loop& loop_;
  const std::chrono::microseconds spin_;
  std::unique_ptr<ucx_engine> engine_;
  asio::posix::stream_descriptor events_;
  asio::steady_timer tick_;
  bool waiting_for_event_ = false;
  bool tick_running_ = false;
  clock::time_point tick_at_;
  clock::time_point last_event_;
  bool working_ = false;  ///< within the engine
  bool stopped_ = false;

  std::mutex mutex_;
  fifo<command> commands_;                  // under the mutex
  bool awake_ = true;                       // under the mutex: a turn runs or is posted, it will see the commands
  std::atomic<bool> any_command_ = false;
  fifo<command> batch_;
};

status driver::start() {
  boost::system::error_code failed;
  events_.assign(engine_->event_fd(), failed);
  if (failed) return error{errc::system_failure, "watching UCX's event fd: " + failed.message(), failed.value()};
  post_turn();
  return {};
}

void driver::stop() {
  if (stopped_) return;
  stopped_ = true;
  events_.release();  // UCX owns the descriptor
  tick_.cancel();
  engine_->mute();
  if (!working_) engine_.reset();
}

void driver::submit(command c) {
  std::lock_guard lock(mutex_);
  commands_.push(std::move(c));
  any_command_.store(true, std::memory_order_release);
  if (!std::exchange(awake_, true)) post_turn();
}

/// Runs `call` on the engine at once; on the loop's thread, perhaps within a callback of the engine.
template <class Call>
void driver::run_here(Call call) {
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

void driver::run(command& c) {
  switch (c.what) {
    case command::kind::send: return engine_->send(c.id, std::move(c.payload));
    case command::kind::consumed: return engine_->consumed(c.id);
    case command::kind::connect: return engine_->connect(c.more->peer, std::move(c.more->where), c.more->credits);
    case command::kind::disconnect: return engine_->disconnect(c.more->peer);
    case command::kind::abandon: return engine_->abandon(c.more->peer, c.more->why);
  }
}

void driver::run_commands() {
  {
    std::lock_guard lock(mutex_);
    std::swap(commands_, batch_);
    any_command_.store(false, std::memory_order_relaxed);
  }
  while (!batch_.empty()) {
    command c = batch_.pop();
    if (!stopped_) run(c);
  }
}

unsigned driver::work() {
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

void driver::turn() {
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
bool driver::fall_asleep() {
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
void driver::keep_ticking(clock::time_point now) {
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

void driver::on_tick() {
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

class ucx_port final : public tensor_port {
 public:
  ucx_port(std::shared_ptr<driver> driver, const port_options& options)
      : driver_(std::move(driver)),
        self_(driver_->engine().self()),
        address_(driver_->engine().address()),
        route_(options.route == port_route::shared_memory ? "ucx posix" : "ucx tcp " + options.tcp_device) {}

  ~ucx_port() override {
    if (driver_->loop().in_loop()) {
      driver_->stop();
    } else {
      std::promise<void> stopped;
      asio::post(driver_->loop().context(), [&] {
        driver_->stop();
        stopped.set_value();
      });
      stopped.get_future().wait();
    }
  }

  shard_id self() const noexcept override { return self_; }
  const port_address& address() const noexcept override { return address_; }

  // From the loop's thread straight to the engine, from others through the queue.
  void connect(shard_id peer, port_address where, std::uint32_t credits) override {
    if (here()) return driver_->run_here([&](auto& engine) { engine.connect(peer, std::move(where), credits); });
    submit(command::kind::connect, {peer, std::move(where), credits, {}});
  }
  void send(const message_id& id, tensor payload) override {
    if (here()) return driver_->run_here([&](auto& engine) { engine.send(id, std::move(payload)); });
    driver_->submit({command::kind::send, id, std::move(payload)});
  }
  void consumed(const message_id& id) override {
    if (here()) return driver_->run_here([&](auto& engine) { engine.consumed(id); });
    driver_->submit({command::kind::consumed, id});
  }
  void disconnect(shard_id peer) override {
    if (here()) return driver_->run_here([&](auto& engine) { engine.disconnect(peer); });
    submit(command::kind::disconnect, {peer, {}, 0, {}});
  }
  void abandon(shard_id peer, const error& why) override {
    if (here()) return driver_->run_here([&](auto& engine) { engine.abandon(peer, why); });
    submit(command::kind::abandon, {peer, {}, 0, why});
  }
  void set_epoch(std::uint32_t epoch) override { driver_->engine().set_epoch(epoch); }
  port_counters counters() const override { return driver_->engine().counters(); }
  std::string route(shard_id) const override { return route_; }

 private:
  bool here() const noexcept { return driver_->loop().in_loop(); }
  void submit(command::kind what, command::rare more) {
    driver_->submit({what, {}, {}, std::make_unique<command::rare>(std::move(more))});
  }

  const std::shared_ptr<driver> driver_;
  const shard_id self_;
  const port_address address_;
  const std::string route_;
};

}  // namespace

result<std::unique_ptr<tensor_port>> make_ucx_port(event_loop& loop, const port_options& options, shard_id self,
                                                   port_listener& listener) {
  TROUPE_TRY(auto engine, ucx_engine::make(options, self, listener));
  auto started = std::make_shared<driver>(loop, options, std::move(engine));
  TROUPE_CHECK(started->start());
  return std::unique_ptr<tensor_port>(std::make_unique<ucx_port>(std::move(started), options));
}

}  // namespace troupe
