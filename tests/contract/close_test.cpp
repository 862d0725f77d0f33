// How connections end when both sides live, and how they begin anew.
#include <boost/asio/post.hpp>
#include <future>

#include "routes.hpp"

using namespace troupe;
using namespace troupe::contract;

namespace {

constexpr std::size_t mib = 1 << 20;

}  // namespace

TEST_CASE("disconnect loses nothing of what was sent, queued or not", "[contract]") {
  const auto over = EVERY_ROUTE;
  const std::size_t bytes = GENERATE(as<std::size_t>(), 64, 100'000, mib);
  CAPTURE(over, bytes);
  constexpr std::size_t count = 40;
  port_pair p(over);
  std::size_t intact = 0;
  const auto expect = patterned(p.at_a.pool, bytes, 7);
  p.at_b.on_arrival = [&](const message_id& id, tensor t) {
    p.b->consumed(id);
    p.at_b.note([&] { intact += same_bytes(t, expect); });
  };
  SECTION("one side says goodbye") {
    p.connect(4);
    for (std::uint32_t m = 0; m < count; ++m) p.a->send(to_b(m), expect);
    p.a->disconnect(shard_b);
  }
  SECTION("both sides say goodbye at once") {
    p.connect(4);
    for (std::uint32_t m = 0; m < count; ++m) p.a->send(to_b(m), expect);
    p.a->disconnect(shard_b);
    p.b->disconnect(shard_a);
  }
  REQUIRE(p.at_a.wait_closed());
  REQUIRE(p.at_b.wait_closed());
  CHECK(intact == count);
  CHECK(p.at_a.failures().empty());
  CHECK(p.at_b.failures().empty());
  CHECK(p.at_a.closed() == 1);
  CHECK(p.at_b.closed() == 1);
}

TEST_CASE("the other side's goodbye lets one's own queue leave too", "[contract]") {
  const auto over = EVERY_ROUTE;
  CAPTURE(over);
  port_pair p(over);
  p.at_a.on_arrival = [&](const message_id& id, tensor) {
    p.a->consumed(id);
    p.at_a.note([] {});
  };
  p.connect(1);
  for (std::uint32_t m = 0; m < 20; ++m) p.b->send(reversed(to_b(m)), patterned(p.at_b.pool, 50'000, m));
  p.a->disconnect(shard_b);
  REQUIRE(p.at_a.wait_closed());
  REQUIRE(p.at_b.wait_closed());
  CHECK(p.a->counters().messages_received == p.b->counters().messages_sent);
}

TEST_CASE("a goodbye that the peer's unconsumed tensors hold up ends in one failure", "[contract]") {
  const auto over = EVERY_UCX_ROUTE;
  CAPTURE(over);
  auto options = options_for(over);
  options.drain_timeout = std::chrono::milliseconds(200);
  port_pair p(over, options);
  p.connect(1);
  p.a->send(to_b(0), patterned(p.at_a.pool, 8, 0));
  p.a->send(to_b(1), patterned(p.at_a.pool, 8, 0));  // never gets a credit
  p.a->disconnect(shard_b);
  REQUIRE(p.at_a.wait_failed());
  CHECK(p.at_a.failures()[0].code == errc::timed_out);
  CHECK(p.at_a.failures()[0].where.find("r0/s1/t0") != std::string::npos);
  CHECK(all_returned(p.at_a.pool));
  p.a.reset();
  CHECK(p.at_a.failures().size() == 1);
  CHECK(p.at_a.closed() == 0);
}

TEST_CASE("abandon ends in exactly one failure and gives every tensor back", "[contract]") {
  const auto over = EVERY_ROUTE;
  const std::size_t bytes = GENERATE(as<std::size_t>(), 64, mib);
  CAPTURE(over, bytes);
  port_pair p(over);
  p.connect(3);
  for (std::uint32_t m = 0; m < 10; ++m) p.a->send(to_b(m), patterned(p.at_a.pool, bytes, m));
  p.a->abandon(shard_b, {errc::peer_unreachable, "killed by signal 9"});
  p.a->abandon(shard_b, {errc::peer_unreachable, "again"});
  REQUIRE(p.at_a.wait_failed());
  p.b.reset();
  p.a.reset();
  REQUIRE(p.at_a.failures().size() == 1);
  CHECK(p.at_a.failures()[0].code == errc::peer_unreachable);
  CHECK(p.at_a.failures()[0].where == "peer r0/s1/t0: killed by signal 9");
  CHECK(p.at_a.closed() == 0);
}

TEST_CASE("after a failure the same two ports can connect again, and nothing old is let in", "[contract]") {
  const auto over = EVERY_ROUTE;
  CAPTURE(over);
  port_pair p(over);
  p.connect(4);
  for (std::uint32_t round = 1; round <= 5; ++round) {
    const auto seen = p.at_b.arrivals().size();
    for (std::uint32_t m = 0; m < 4; ++m) p.a->send(to_b(m, round - 1), patterned(p.at_a.pool, 100'000, m));
    p.a->abandon(shard_b, {errc::peer_unreachable, "as if it had died"});
    REQUIRE(p.at_a.wait_failed(round));
    for (auto* port : {p.a.get(), p.b.get()}) port->set_epoch(round);
    p.a->connect(shard_b, p.b->address(), 4);  // its hello is how the other side may learn of the failure
    REQUIRE(p.at_b.wait_failed(round));
    p.b->connect(shard_a, p.a->address(), 4);
    REQUIRE(p.at_a.wait_ready(round + 1));
    REQUIRE(p.at_b.wait_ready(round + 1));
    p.a->send(to_b(77, round), patterned(p.at_a.pool, 100'000, round));
    for (std::size_t n = seen + 1;; ++n) {
      REQUIRE(p.at_b.wait_arrivals(n));
      const auto last = p.at_b.arrivals()[n - 1];
      if (last.id.micro_batch != 77) continue;
      CHECK(last.id.epoch == round);
      CHECK(same_bytes(last.payload, patterned(p.at_a.pool, 100'000, round)));
      break;
    }
  }
  CHECK(p.at_a.failures().size() == 5);
  CHECK(p.at_b.failures().size() == 5);
}

TEST_CASE("a handshake that nobody answers ends in one failure", "[contract]") {
  const auto over = EVERY_UCX_ROUTE;
  CAPTURE(over);
  auto options = options_for(over);
  options.handshake_timeout = std::chrono::milliseconds(500);
  port_pair p(over, options);
  const auto before = std::chrono::steady_clock::now();
  p.a->connect(shard_b, p.b->address(), 1);
  p.a->send(to_b(0), patterned(p.at_a.pool, 8, 0));
  REQUIRE(p.at_a.wait_failed());
  CHECK(std::chrono::steady_clock::now() - before >= options.handshake_timeout);
  CHECK(p.at_a.failures()[0].code == errc::timed_out);
  CHECK(all_returned(p.at_a.pool));
  p.connect();  // and a later try may succeed
  p.a->send(to_b(1), patterned(p.at_a.pool, 8, 1));
  CHECK(p.at_b.wait_arrivals(1));
}

TEST_CASE("a peer that connects after several hellos of ours is reached all the same", "[contract]") {
  const auto over = EVERY_UCX_ROUTE;
  CAPTURE(over);
  auto options = options_for(over);
  options.handshake_timeout = std::chrono::milliseconds(20'000);
  port_pair p(over, options);
  recorder at_c;
  const shard_id nobody{0, 9, 0};
  auto impatient = options;
  impatient.handshake_timeout = std::chrono::milliseconds(600);  // hellos 120 ms apart
  auto c = make_ucx_port(p.loop_a, impatient, nobody, at_c);
  REQUIRE(c);
  (*c)->connect(shard_b, p.b->address(), 1);
  REQUIRE(at_c.wait_failed());  // by then every retry has been made
  (*c)->connect(shard_b, p.b->address(), 1);
  p.b->connect(nobody, (*c)->address(), 1);
  CHECK(at_c.wait_ready());
  CHECK(p.at_b.wait_ready());
}

TEST_CASE("disconnect before the handshake is done ends at once", "[contract]") {
  const auto over = EVERY_ROUTE;
  CAPTURE(over);
  port_pair p(over);
  p.a->connect(shard_b, p.b->address(), 1);
  p.a->disconnect(shard_b);
  REQUIRE(p.at_a.wait_closed());
  CHECK(p.at_a.failures().empty());
}

TEST_CASE("a message to a peer that is not connected is counted and dropped", "[contract]") {
  const auto over = EVERY_ROUTE;
  CAPTURE(over);
  port_pair p(over);
  p.a->send(to_b(0), patterned(p.at_a.pool, 8, 0));
  REQUIRE(counts(*p.a, &port_counters::dropped_foreign, 1));
  CHECK(all_returned(p.at_a.pool));
}

TEST_CASE("a port can be destroyed at any time, on either thread", "[contract]") {
  const auto over = EVERY_ROUTE;
  const bool in_loop = GENERATE(false, true);
  CAPTURE(over, in_loop);
  for (int round = 0; round < 10; ++round) {
    port_pair p(over);
    p.at_b.on_arrival = [&](const message_id&, tensor) { p.at_b.note([] {}); };
    if (round % 3 == 0) p.a->connect(shard_b, p.b->address(), 50);  // handshake under way
    if (round % 3 != 0) p.connect(50);
    for (std::uint32_t m = 0; m < 50; ++m) p.a->send(to_b(m), patterned(p.at_a.pool, m % 2 ? 64 : 200'000, m));
    auto& port = round % 2 ? p.a : p.b;
    if (in_loop) {
      std::promise<void> gone;
      boost::asio::post((round % 2 ? p.loop_a : p.loop_b).context(), [&] {
        port.reset();
        gone.set_value();
      });
      gone.get_future().wait();
    } else {
      port.reset();
    }
  }
}

TEST_CASE("a listener may destroy its port from within a call", "[contract]") {
  const auto over = EVERY_ROUTE;
  CAPTURE(over);
  port_pair p(over);
  int calls = 0;
  p.at_b.on_arrival = [&](const message_id&, tensor) {
    p.b.reset();
    p.at_b.note([&] { ++calls; });
  };
  p.connect(8);
  for (std::uint32_t m = 0; m < 8; ++m) p.a->send(to_b(m), patterned(p.at_a.pool, 100, m));
  REQUIRE(p.at_b.wait([&] { return calls > 0; }));
  p.a.reset();
  CHECK(calls == 1);
}
