// What every route promises about tensors that flow.
#include <algorithm>
#include <map>
#include <random>

#include "routes.hpp"

using namespace troupe;
using namespace troupe::contract;

TEST_CASE("tensors of every size come back as they were sent", "[contract]") {
  const auto over = EVERY_ROUTE;
  const std::size_t mib = 1 << 20;
  const std::size_t bytes = GENERATE_COPY(values<std::size_t>({0, 1, 13, 4096, 65'537, mib, 64 * mib}));
  CAPTURE(over, bytes);
  port_pair p(over);
  p.at_b.on_arrival = [&](const message_id& id, tensor t) {
    p.b->consumed(id);
    p.b->send(reversed(id), std::move(t));
  };
  p.connect(2);
  const tensor original = patterned(p.at_a.pool, bytes, bytes);
  for (std::uint32_t m = 0; m < 3; ++m) p.a->send(to_b(m), original);
  for (std::size_t n = 1; n <= 3; ++n) {
    REQUIRE(p.at_a.wait_arrivals(n));
    const auto back = p.at_a.arrivals()[n - 1];
    CHECK(same_bytes(back.payload, original));
    p.a->consumed(back.id);
  }
  CHECK(p.a->counters().messages_sent == 3);
  CHECK(p.a->counters().bytes_sent == 3 * bytes);
  CHECK(p.a->counters().messages_received == 3);
  CHECK(p.a->counters().bytes_received == 3 * bytes);
}

TEST_CASE("every kind, type and shape arrives as what it was sent as", "[contract]") {
  const auto over = EVERY_ROUTE;
  CAPTURE(over);
  port_pair p(over);
  p.connect(64);
  std::vector<recorder::arrival> sent;
  for (auto kind : {message_kind::activation, message_kind::gradient, message_kind::shared_gradient}) {
    for (auto type : {dtype::f32, dtype::bf16, dtype::i32, dtype::u8}) {
      for (const shape& dims : {shape{}, shape{3, 5}, shape{2, 1, 3, 1, 2, 1}}) {
        message_id id = to_b(static_cast<std::uint32_t>(sent.size()));
        id.kind = kind;
        id.step = 1'000'000'000'000 + sent.size();
        id.incarnation = 5;
        id.chunk = 3;
        const tensor_spec spec{type, dims};
        const tensor bytes = patterned(p.at_a.pool, spec.bytes(), sent.size());
        auto made = tensor::make(p.at_a.pool, spec);
        REQUIRE(made);
        std::memcpy(made->raw(), bytes.raw(), spec.bytes());
        sent.push_back({id, *made});
        p.a->send(id, *made);
      }
    }
  }
  REQUIRE(p.at_b.wait_arrivals(sent.size()));
  auto got = p.at_b.arrivals();
  std::sort(got.begin(), got.end(), [](const auto& x, const auto& y) { return x.id.micro_batch < y.id.micro_batch; });
  for (std::size_t i = 0; i < sent.size(); ++i) {
    CHECK(got[i].id == sent[i].id);
    CHECK(same_bytes(got[i].payload, sent[i].payload));
  }
}

TEST_CASE("a message is known by its id whatever the order of sending", "[contract]") {
  const auto over = EVERY_ROUTE;
  CAPTURE(over);
  port_pair p(over);
  p.connect(200);
  std::vector<std::uint32_t> order(100);
  for (std::uint32_t m = 0; m < order.size(); ++m) order[m] = m;
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  for (auto m : order) p.a->send(to_b(m), patterned(p.at_a.pool, m % 2 ? 100 : 100'000, m));
  REQUIRE(p.at_b.wait_arrivals(order.size()));
  for (const auto& got : p.at_b.arrivals()) {
    const auto m = got.id.micro_batch;
    CHECK(same_bytes(got.payload, patterned(p.at_a.pool, m % 2 ? 100 : 100'000, m)));
  }
}

TEST_CASE("sends that pile up keep each its own header and payload", "[contract]") {
  const auto over = EVERY_ROUTE;
  const std::size_t bytes = GENERATE(as<std::size_t>(), 24, 6'000, 16'384);
  CAPTURE(over, bytes);
  port_pair p(over);
  p.connect(1'000);
  constexpr std::uint32_t count = 500;  // far more than UCX's queues hold
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t m = 0; m < count; ++m) p.a->send(to_b(m + count * round), patterned(p.at_a.pool, bytes, m));
    REQUIRE(p.at_b.wait_arrivals(count * (round + 1)));
    for (std::uint32_t m = 0; m < count; ++m) p.b->consumed(to_b(m));
  }
  std::map<std::uint32_t, int> seen;
  for (const auto& got : p.at_b.arrivals()) {
    ++seen[got.id.micro_batch];
    CHECK(same_bytes(got.payload, patterned(p.at_a.pool, bytes, got.id.micro_batch % count)));
  }
  CHECK(seen.size() == 2 * count);
}

TEST_CASE("several threads may send through one port", "[contract]") {
  const auto over = EVERY_ROUTE;
  CAPTURE(over);
  port_pair p(over);
  std::uint64_t sum = 0, arrived = 0;
  p.at_b.on_arrival = [&](const message_id& id, tensor t) {
    p.b->consumed(id);
    p.at_b.note([&] {
      sum += *static_cast<std::uint8_t*>(t.raw());
      ++arrived;
    });
  };
  p.connect(16);
  std::vector<std::thread> senders;
  for (std::uint32_t k = 0; k < 4; ++k) {
    senders.emplace_back([&, k] {
      for (std::uint32_t m = 0; m < 500; ++m) {
        auto t = *tensor::make(p.at_a.pool, {dtype::u8, {64}});
        std::memset(t.raw(), static_cast<int>(k + 1), 64);
        p.a->send(to_b(k * 500 + m), std::move(t));
      }
    });
  }
  for (auto& s : senders) s.join();
  REQUIRE(p.at_b.wait([&] { return arrived == 2'000; }));
  CHECK(sum == 500 * (1 + 2 + 3 + 4));
  CHECK(all_returned(p.at_a.pool));
}

TEST_CASE("a tensor sent before the handshake is done arrives after it", "[contract]") {
  const auto over = EVERY_ROUTE;
  CAPTURE(over);
  port_pair p(over);
  p.a->connect(shard_b, p.b->address(), 1);
  p.a->send(to_b(0), patterned(p.at_a.pool, 100, 1));
  p.b->connect(shard_a, p.a->address(), 1);
  REQUIRE(p.at_b.wait_arrivals(1));
  CHECK(p.at_b.ready() == 1);
}

TEST_CASE("a steady state takes no new memory from the pools", "[contract]") {
  const auto over = EVERY_ROUTE;
  CAPTURE(over);
  port_pair p(over);
  std::uint32_t rounds = 0;
  p.at_b.on_arrival = [&](const message_id& id, tensor t) {
    p.b->consumed(id);
    p.b->send(reversed(id), std::move(t));
  };
  p.at_a.on_arrival = [&](const message_id& id, tensor t) {
    p.a->consumed(id);
    const bool more = id.micro_batch < 1'000;
    if (more) p.a->send(to_b(id.micro_batch + 1), std::move(t));
    p.at_a.note([&] { rounds = id.micro_batch; });
  };
  p.connect(2);
  p.a->send(to_b(0), patterned(p.at_a.pool, 100'000, 1));
  REQUIRE(p.at_a.wait([&] { return rounds == 1'000; }));
  CHECK(p.at_a.pool.stats().device_allocations <= 3);
  CHECK(p.at_b.pool.stats().device_allocations <= 3);
}
