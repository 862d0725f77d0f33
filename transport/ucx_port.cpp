#include "transport/ucx_port.hpp"

#include <boost/asio/post.hpp>
#include <future>

#include "transport/ucx_driver.hpp"

namespace troupe {

namespace {

class ucx_port final : public tensor_port {
public:
  ucx_port(std::shared_ptr<ucx_driver> driver, const port_options& options)
      : driver_(std::move(driver)),
        self_(driver_->engine().self()),
        address_(driver_->engine().address()),
        route_(options.route == port_route::shared_memory ? "ucx posix" : "ucx tcp " + options.tcp_device) {}

  ~ucx_port() override {
    if (driver_->loop().in_loop()) {
      driver_->stop();
    } else {
      std::promise<void> stopped;
      boost::asio::post(driver_->loop().context(), [&] {
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
    submit(port_command::kind::connect, {peer, std::move(where), credits, {}});
  }
  void send(const message_id& id, tensor payload) override {
    if (here()) return driver_->run_here([&](auto& engine) { engine.send(id, std::move(payload)); });
    driver_->submit({port_command::kind::send, id, std::move(payload)});
  }
  void consumed(const message_id& id) override {
    if (here()) return driver_->run_here([&](auto& engine) { engine.consumed(id); });
    driver_->submit({port_command::kind::consumed, id});
  }
  void disconnect(shard_id peer) override {
    if (here()) return driver_->run_here([&](auto& engine) { engine.disconnect(peer); });
    submit(port_command::kind::disconnect, {peer, {}, 0, {}});
  }
  void abandon(shard_id peer, const error& why) override {
    if (here()) return driver_->run_here([&](auto& engine) { engine.abandon(peer, why); });
    submit(port_command::kind::abandon, {peer, {}, 0, why});
  }
  void set_epoch(std::uint32_t epoch) override { driver_->engine().set_epoch(epoch); }
  port_counters counters() const override { return driver_->engine().counters(); }
  std::string route(shard_id) const override { return route_; }

private:
  bool here() const noexcept { return driver_->loop().in_loop(); }
  void submit(port_command::kind what, port_command::rare more) {
    driver_->submit({what, {}, {}, std::make_unique<port_command::rare>(std::move(more))});
  }

  const std::shared_ptr<ucx_driver> driver_;
  const shard_id self_;
  const port_address address_;
  const std::string route_;
};

}  // namespace

result<std::unique_ptr<tensor_port>> make_ucx_port(event_loop& loop, const port_options& options, shard_id self,
                                                   port_listener& listener) {
  TROUPE_TRY(auto engine, ucx_engine::make(options, self, listener));
  auto started = std::make_shared<ucx_driver>(loop, options, std::move(engine));
  TROUPE_CHECK(started->start());
  return std::unique_ptr<tensor_port>(std::make_unique<ucx_port>(std::move(started), options));
}

}  // namespace troupe
