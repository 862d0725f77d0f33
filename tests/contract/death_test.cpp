// A peer's process dies, or stands still, at every state of a connection. The owner hears of a death elsewhere (process
// exit, supervisor) and abandons the peer; the port must then let everything go and say so exactly once.
#include "peer_process.hpp"

using namespace troupe;
using namespace troupe::contract;

namespace {

constexpr std::size_t mib = 1 << 20;
const error killed{errc::peer_unreachable, "killed by signal 9"};

/// A port here and one in a child process.
struct port_and_process {
  port_and_process(route over, const std::string& role) : peer(over, role) {
    auto made = make_ucx_port(loop, options_for(over), shard_a, listener);
    if (!made) FAIL(to_string(made.error()));
    port = *std::move(made);
  }
  void connect(std::uint32_t credits = 64) {
    port->connect(shard_b, peer.address(), credits);
    peer.tell(port->address());
    REQUIRE(listener.wait_ready());
  }
  void send(std::uint32_t count, std::size_t bytes) {
    const tensor payload = patterned(listener.pool, bytes, 1);
    for (std::uint32_t m = 0; m < count; ++m) port->send(to_b(m), payload);
  }
  /// Everything is let go, and the listener heard of it once and is not called again. A tensor that was being received
  /// over shared memory may stay with UCX until the port goes (see `ucx_engine::orphan_operations`).
  void expect_one_failure(bool was_receiving = false) {
    REQUIRE(listener.wait_failed());
    if (!was_receiving) CHECK(all_returned(listener.pool));
    port.reset();
    CHECK(all_returned(listener.pool));
    CHECK(listener.failures().size() == 1);
    CHECK(listener.closed() == 0);
    CHECK(listener.failures()[0].where.find("r0/s1/t0") != std::string::npos);
  }

  peer_process peer;
  event_loop loop{"survivor"};
  recorder listener;
  std::unique_ptr<tensor_port> port;
};

}  // namespace

TEST_CASE("tensors travel between processes and come back as they were", "[contract]") {
  port_and_process p(EVERY_UCX_ROUTE, "echo");
  p.connect();
  for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, mib, 16 * mib}) {
    const auto n = p.listener.arrivals().size();
    const tensor original = patterned(p.listener.pool, bytes, bytes);
    p.port->send(to_b(1), original);
    REQUIRE(p.listener.wait_arrivals(n + 1));
    CHECK(same_bytes(p.listener.arrivals()[n].payload, original));
    p.port->consumed(reversed(to_b(1)));
  }
}

TEST_CASE("an idle peer is killed", "[contract]") {
  port_and_process p(EVERY_UCX_ROUTE, "echo");
  const bool reaped = GENERATE(true, false);  // false: it stays a zombie, which UCX takes for alive
  p.connect();
  p.peer.kill();
  if (reaped) p.peer.reap();
  p.port->abandon(shard_b, killed);
  p.expect_one_failure();
}

TEST_CASE("over tcp a port notices a killed peer by itself", "[contract]") {
  port_and_process p(route::tcp, "echo");
  p.connect();
  p.peer.kill();
  p.expect_one_failure();
}

TEST_CASE("a peer is killed before it answers the handshake", "[contract]") {
  port_and_process p(EVERY_UCX_ROUTE, "mute");
  p.port->connect(shard_b, p.peer.address(), 4);
  p.send(3, 100);
  p.peer.kill();
  p.peer.reap();
  p.port->abandon(shard_b, killed);
  p.expect_one_failure();
}

TEST_CASE("a peer leaves in the middle of the handshake", "[contract]") {
  const auto over = EVERY_UCX_ROUTE;
  for (int round = 0; round < 10; ++round) {
    port_and_process p(over, "depart");
    p.port->connect(shard_b, p.peer.address(), 4);
    p.send(3, mib);
    p.peer.tell(p.port->address());
    p.peer.reap();
    p.port->abandon(shard_b, killed);
    p.expect_one_failure();
  }
}

TEST_CASE("a peer stands still with small tensors pending to it, and is then given up", "[contract]") {
  port_and_process p(EVERY_UCX_ROUTE, "hold");
  const bool then_killed = GENERATE(false, true);
  p.connect();
  p.peer.stop();
  p.send(1'000, 1'000);
  if (then_killed) p.peer.kill();
  p.port->abandon(shard_b, killed);
  p.expect_one_failure();
}

TEST_CASE("a peer stands still with large tensors pending to it, and is then given up", "[contract]") {
  port_and_process p(EVERY_UCX_ROUTE, "hold");
  const bool then_killed = GENERATE(false, true);
  const std::uint32_t count = GENERATE(1, 4, 100);  // 100: more than UCX's queue to the peer holds
  p.connect();
  p.peer.stop();
  p.send(count, mib);
  if (then_killed) p.peer.kill();
  p.port->abandon(shard_b, killed);
  p.expect_one_failure();
}

TEST_CASE("a peer is killed while tensors stream to it", "[contract]") {
  const auto over = EVERY_UCX_ROUTE;
  for (int round = 0; round < 10; ++round) {
    port_and_process p(over, "echo");
    std::size_t echoes = 0;
    p.listener.on_arrival = [&](const message_id& id, tensor) {
      p.port->consumed(id);
      p.listener.note([&] { ++echoes; });
    };
    p.connect();
    p.send(64, mib);
    REQUIRE(p.listener.wait([&] { return echoes >= static_cast<std::size_t>(1 + round); }));
    p.peer.kill();
    p.port->abandon(shard_b, killed);
    p.expect_one_failure(true);
  }
}

TEST_CASE("a peer is killed while a tensor is being received from it", "[contract]") {
  const auto over = EVERY_UCX_ROUTE;
  const std::uint32_t at = GENERATE(0, 5);
  port_and_process p(over, "source");
  std::uint32_t asked = 0;
  p.listener.on_destination = [&](const message_id&, const tensor_spec&) -> status {
    if (asked == at) p.peer.kill();
    p.listener.note([&] { ++asked; });
    return {};
  };
  p.listener.on_arrival = [&](const message_id& id, tensor) { p.port->consumed(id); };
  p.connect(2);
  REQUIRE(p.listener.wait([&] { return asked > at; }));
  p.peer.reap();
  p.port->abandon(shard_b, killed);
  p.expect_one_failure(true);
}

TEST_CASE("a peer's successor, in a new process, is reached after its death, at once too", "[contract]") {
  const auto over = EVERY_UCX_ROUTE;
  const bool at_once = GENERATE(false, true);
  port_and_process p(over, "hold");
  p.connect();
  p.peer.stop();
  p.send(100, 100'000);
  p.peer.kill();
  peer_process successor(over, "echo");
  p.port->abandon(shard_b, killed);
  if (!at_once) REQUIRE(p.listener.wait_failed());
  p.port->set_epoch(1);
  p.port->connect(shard_b, successor.address(), 4);
  successor.tell(p.port->address());
  REQUIRE(p.listener.wait_ready(2));
  const auto original = patterned(p.listener.pool, mib, 3);
  p.port->send(to_b(7, 1), original);
  REQUIRE(p.listener.wait_arrivals(1));
  CHECK(p.listener.arrivals()[0].id == reversed(to_b(7, 1)));
  CHECK(same_bytes(p.listener.arrivals()[0].payload, original));
}
