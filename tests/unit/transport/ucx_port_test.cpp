#include "transport/ucx_port.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "catch.hpp"

using namespace troupe;

namespace {

struct patient_listener : port_listener {
  void peer_ready(shard_id) override {
    std::lock_guard lock(mutex);
    ready = true;
    changed.notify_all();
  }
  result<tensor> destination(const message_id&, const tensor_spec&) override { return invalid("no room"); }
  void arrived(const message_id&, tensor) override {}
  void peer_failed(shard_id, const error&) override {}
  void peer_closed(shard_id) override {}
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ready; });
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool ready = false;
};

/// How many tcp sockets of this process let the kernel probe an idle peer after one second.
int probed_sockets() {
  int found = 0;
  for (int fd = 0; fd < 1'024; ++fd) {
    int idle = 0, on = 0;
    socklen_t length = sizeof idle, on_length = sizeof on;
    if (::getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &on_length) != 0 || on == 0) continue;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, &length) == 0 && idle == 1) ++found;
  }
  return found;
}

}  // namespace

TEST_CASE("an unknown network device is an error that names it", "[ucx_port]") {
  event_loop loop("test");
  patient_listener listener;
  port_options options;
  options.route = port_route::tcp;
  options.tcp_device = "no-such0";
  const auto port = make_ucx_port(loop, options, {}, listener);
  REQUIRE_FALSE(port);
  CHECK(port.error().code == errc::invalid_argument);
  CHECK(port.error().where.find("no-such0") != std::string::npos);
}

TEST_CASE("a port says what carries its bytes", "[ucx_port]") {
  event_loop loop("test");
  patient_listener listener;
  port_options options;
  auto shared = make_ucx_port(loop, options, {}, listener);
  REQUIRE(shared);
  CHECK((*shared)->route({}) == "ucx posix");
  CHECK_FALSE((*shared)->address().empty());
  options.route = port_route::tcp;
  auto tcp = make_ucx_port(loop, options, {}, listener);
  REQUIRE(tcp);
  CHECK((*tcp)->route({}) == "ucx tcp lo");
}

TEST_CASE("the kernel probes an idle tcp connection: UCX took our settings", "[ucx_port]") {
  event_loop loop("test");
  patient_listener at_a, at_b;
  port_options options;
  options.route = port_route::tcp;
  auto a = make_ucx_port(loop, options, {0, 0, 0}, at_a), b = make_ucx_port(loop, options, {0, 1, 0}, at_b);
  REQUIRE(a);
  REQUIRE(b);
  (*a)->connect({0, 1, 0}, (*b)->address(), 1);
  (*b)->connect({0, 0, 0}, (*a)->address(), 1);
  at_a.wait();
  at_b.wait();
  CHECK(probed_sockets() >= 1);
}

TEST_CASE("the environment that a user has set for UCX is kept", "[ucx_port]") {
  ::setenv("UCX_LOG_LEVEL", "fatal", 1);
  ::unsetenv("UCX_ERROR_SIGNALS");
  set_ucx_environment();
  CHECK(std::string(std::getenv("UCX_LOG_LEVEL")) == "fatal");
  REQUIRE(std::getenv("UCX_ERROR_SIGNALS"));
  CHECK(std::string(std::getenv("UCX_ERROR_SIGNALS")).empty());
}
