#include <atomic>
#include <functional>
#include <thread>

#include "catch.hpp"
#include "transport/in_process.hpp"

using namespace troupe;

namespace {

const shard_id shard_a{0, 0, 0}, shard_b{0, 1, 0};

/// Remembers what it was told; `on_arrival` may call the port from within.
struct recorder : port_listener {
  std::vector<std::string> told;
  std::vector<message_id> messages;
  std::vector<tensor> payloads;
  std::function<void(const message_id&)> on_arrival;

  void peer_ready(shard_id peer) override { told.push_back("ready " + to_string(peer)); }
  result<tensor> destination(const message_id&, const tensor_spec&) override { return invalid("never asked"); }
  void arrived(const message_id& id, tensor payload) override {
    told.push_back("arrived");
    messages.push_back(id);
    payloads.push_back(std::move(payload));
    if (on_arrival) on_arrival(id);
  }
  void peer_failed(shard_id peer, const error& why) override {
    told.push_back("failed " + to_string(peer) + ": " + why.where);
  }
  void peer_closed(shard_id peer) override { told.push_back("closed " + to_string(peer)); }
};

struct pair {
  buffer_pool pool{host_memory()};
  in_process_exchange exchange;
  recorder at_a, at_b;
  std::unique_ptr<tensor_port> a = exchange.make_port(shard_a, at_a), b = exchange.make_port(shard_b, at_b);

  void connect(std::uint32_t credits = 4) {
    a->connect(shard_b, b->address(), credits);
    b->connect(shard_a, a->address(), credits);
    at_a.told.clear();
    at_b.told.clear();
  }
  message_id to_b(std::uint32_t micro_batch) const {
    return {.source = shard_a, .destination = shard_b, .micro_batch = micro_batch};
  }
  message_id to_a(std::uint32_t micro_batch) const {
    return {.source = shard_b, .destination = shard_a, .micro_batch = micro_batch};
  }
  tensor value(std::int64_t n = 8) { return *tensor::make(pool, {dtype::f32, {n}}); }
};

using texts = std::vector<std::string>;

}  // namespace

TEST_CASE("both sides are ready only when both have connected", "[in_process]") {
  pair p;
  p.a->connect(shard_b, p.b->address(), 1);
  CHECK(p.at_a.told.empty());
  p.b->connect(shard_a, p.a->address(), 1);
  CHECK(p.at_a.told == texts{"ready r0/s1/t0"});
  CHECK(p.at_b.told == texts{"ready r0/s0/t0"});
}

TEST_CASE("a send hands the very same bytes over", "[in_process]") {
  pair p;
  p.connect();
  tensor t = p.value();
  p.a->send(p.to_b(7), t);
  REQUIRE(p.at_b.payloads.size() == 1);
  CHECK(p.at_b.payloads[0].raw() == t.raw());
  CHECK(p.at_b.messages[0] == p.to_b(7));
  CHECK(p.a->counters().messages_sent == 1);
  CHECK(p.a->counters().bytes_sent == 32);
  CHECK(p.b->counters().messages_received == 1);
  CHECK(p.b->counters().bytes_received == 32);
}

TEST_CASE("a tensor sent before the handshake is done arrives after it", "[in_process]") {
  pair p;
  p.a->connect(shard_b, p.b->address(), 1);
  p.a->send(p.to_b(0), p.value());
  p.b->connect(shard_a, p.a->address(), 1);
  CHECK(p.at_b.told == texts{"ready r0/s0/t0", "arrived"});
}

TEST_CASE("without credit a send waits until one is consumed", "[in_process]") {
  pair p;
  p.connect(2);
  for (std::uint32_t m = 0; m < 4; ++m) p.a->send(p.to_b(m), p.value());
  CHECK(p.at_b.messages.size() == 2);
  CHECK(p.a->counters().waits_for_credit == 2);
  p.b->consumed(p.to_b(0));
  CHECK(p.at_b.messages.size() == 3);
  p.b->consumed(p.to_b(1));
  CHECK(p.at_b.messages.size() == 4);
}

TEST_CASE("a listener may consume and answer from within its call", "[in_process]") {
  pair p;
  p.connect(1);
  p.at_b.on_arrival = [&](const message_id& id) {
    p.b->consumed(id);
    p.b->send(p.to_a(id.micro_batch), p.value());
  };
  p.at_a.on_arrival = [&](const message_id& id) {
    p.a->consumed(id);
    if (id.micro_batch < 10'000) p.a->send(p.to_b(id.micro_batch + 1), p.value());
  };
  p.a->send(p.to_b(0), p.value());
  CHECK(p.at_a.messages.size() == 10'001);  // and the stack did not grow with it
}

TEST_CASE("a message of an older epoch than the receiver's is dropped, counted and takes no credit", "[in_process]") {
  pair p;
  p.connect(1);
  p.b->set_epoch(3);
  p.a->send({.source = shard_a, .destination = shard_b, .epoch = 2}, p.value());
  CHECK(p.at_b.messages.empty());
  CHECK(p.b->counters().dropped_stale == 1);
  p.a->send({.source = shard_a, .destination = shard_b, .epoch = 3}, p.value());
  CHECK(p.at_b.messages.size() == 1);
}

TEST_CASE("disconnect waits for what is queued, then both sides hear goodbye once", "[in_process]") {
  pair p;
  p.connect(1);
  p.a->send(p.to_b(0), p.value());
  p.a->send(p.to_b(1), p.value());
  p.a->disconnect(shard_b);
  CHECK(p.at_a.told.empty());
  p.b->consumed(p.to_b(0));
  CHECK(p.at_b.told == texts{"arrived", "arrived", "closed r0/s0/t0"});
  CHECK(p.at_a.told == texts{"closed r0/s1/t0"});
  p.b->disconnect(shard_a);
  p.a->abandon(shard_b, invalid("late"));
  CHECK(p.at_a.told.size() == 1);
  CHECK(p.at_b.told.size() == 3);
}

TEST_CASE("abandon gives up what is queued and both sides hear of it once", "[in_process]") {
  pair p;
  p.connect(1);
  tensor kept = p.value();
  p.a->send(p.to_b(0), p.value());
  p.a->send(p.to_b(1), kept);
  CHECK_FALSE(kept.unique());
  p.a->abandon(shard_b, {errc::peer_unreachable, "killed by signal 9"});
  p.a->abandon(shard_b, {errc::peer_unreachable, "again"});
  CHECK(kept.unique());
  CHECK(p.at_a.told == texts{"failed r0/s1/t0: peer r0/s1/t0: killed by signal 9"});
  CHECK(p.at_b.told == texts{"arrived", "failed r0/s0/t0: peer r0/s0/t0 gave this connection up"});
}

TEST_CASE("a peer whose port goes has failed, and its successor can be connected", "[in_process]") {
  pair p;
  p.connect(1);
  p.b.reset();
  CHECK(p.at_a.told == texts{"failed r0/s1/t0: peer r0/s1/t0 closed its port"});
  p.a->send(p.to_b(0), p.value());
  CHECK(p.a->counters().dropped_foreign == 1);
  p.b = p.exchange.make_port(shard_b, p.at_b);
  p.connect(1);
  p.a->send(p.to_b(1), p.value());
  CHECK(p.at_b.messages.size() == 1);
  CHECK(p.at_b.messages[0].micro_batch == 1);
}

TEST_CASE("two threads that send to each other lose nothing and deliver in order", "[in_process]") {
  constexpr std::uint32_t count = 20'000;
  pair p;
  p.connect(3);
  p.at_a.on_arrival = [&](const message_id& id) { p.a->consumed(id); };
  p.at_b.on_arrival = [&](const message_id& id) { p.b->consumed(id); };
  std::thread from_b([&] {
    for (std::uint32_t m = 0; m < count; ++m) p.b->send(p.to_a(m), tensor());
  });
  for (std::uint32_t m = 0; m < count; ++m) p.a->send(p.to_b(m), tensor());
  from_b.join();
  // Each end's last delivery may have been made by the other thread, which has ended or is this one.
  REQUIRE(p.at_a.messages.size() == count);
  REQUIRE(p.at_b.messages.size() == count);
  for (std::uint32_t m = 0; m < count; ++m) {
    REQUIRE(p.at_a.messages[m].micro_batch == m);
    REQUIRE(p.at_b.messages[m].micro_batch == m);
  }
}

TEST_CASE("a port destroyed while another thread sends to it waits until its listener is left", "[in_process]") {
  for (int round = 0; round < 200; ++round) {
    pair p;
    p.connect(1'000'000);
    std::atomic<bool> gone = false, late = false, started = false;
    p.at_b.on_arrival = [&](const message_id&) {
      started = true;
      if (gone) late = true;
    };
    std::thread sender([&] {
      for (std::uint32_t m = 0; m < 1'000; ++m) p.a->send(p.to_b(m), tensor());
    });
    while (!started) std::this_thread::yield();
    p.b.reset();
    gone = true;
    sender.join();
    CHECK_FALSE(late);
  }
}
