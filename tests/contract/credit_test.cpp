// Credits, refusals, epochs: what keeps a receiver's memory bounded and its state clean.
#include "routes.hpp"

using namespace troupe;
using namespace troupe::contract;

TEST_CASE("a slow receiver bounds what is in flight to it", "[contract]") {
  const auto over = EVERY_ROUTE;
  const std::size_t bytes = GENERATE(as<std::size_t>(), 100, 200'000);
  CAPTURE(over, bytes);
  port_pair p(over);
  p.connect(2);
  for (std::uint32_t m = 0; m < 6; ++m) p.a->send(to_b(m), patterned(p.at_a.pool, bytes, m));
  REQUIRE(counts(*p.a, &port_counters::messages_sent, 6));
  REQUIRE(p.at_b.wait_arrivals(2));
  CHECK(p.a->counters().waits_for_credit == 4);
  // An answer that goes all the way round shows that nothing else was on its way.
  p.b->send(reversed(to_b(9)), patterned(p.at_b.pool, 1, 1));
  REQUIRE(p.at_a.wait_arrivals(1));
  CHECK(p.at_b.arrivals().size() == 2);
  for (std::size_t n = 3; n <= 6; ++n) {
    p.b->consumed(to_b(0));
    REQUIRE(p.at_b.wait_arrivals(n));
    CHECK(p.at_b.arrivals().size() == n);
  }
  for (std::uint32_t m = 0; m < 6; ++m)
    CHECK(same_bytes(p.at_b.arrivals()[m].payload, patterned(p.at_a.pool, bytes, m)));
}

TEST_CASE("consuming more than arrived gives no credit", "[contract]") {
  const auto over = EVERY_ROUTE;
  CAPTURE(over);
  port_pair p(over);
  p.connect(1);
  for (int i = 0; i < 5; ++i) p.b->consumed(to_b(0));
  p.b->send(reversed(to_b(8)), patterned(p.at_b.pool, 1, 1));
  REQUIRE(p.at_a.wait_arrivals(1));  // by now they have been taken in
  p.a->consumed(reversed(to_b(8)));
  for (std::uint32_t m = 0; m < 3; ++m) p.a->send(to_b(m), patterned(p.at_a.pool, 8, m));
  REQUIRE(p.at_b.wait_arrivals(1));
  p.b->send(reversed(to_b(9)), patterned(p.at_b.pool, 1, 1));
  REQUIRE(p.at_a.wait_arrivals(2));
  CHECK(p.at_b.arrivals().size() == 1);
}

TEST_CASE("a refused message is counted, its credit comes back and the next one arrives", "[contract]") {
  const auto over = EVERY_UCX_ROUTE;
  const std::size_t bytes = GENERATE(as<std::size_t>(), 0, 100, 200'000);
  CAPTURE(over, bytes);
  port_pair p(over);
  p.at_b.on_destination = [](const message_id& id, const tensor_spec&) -> status {
    return id.micro_batch == 0 ? status(error{errc::out_of_memory, "no room"}) : status();
  };
  p.connect(1);
  p.a->send(to_b(0), patterned(p.at_a.pool, bytes, 0));
  p.a->send(to_b(1), patterned(p.at_a.pool, bytes, 1));
  REQUIRE(p.at_b.wait_arrivals(1));
  CHECK(p.at_b.arrivals()[0].id.micro_batch == 1);
  CHECK(p.b->counters().dropped_refused == 1);
  CHECK(p.at_a.failures().empty());
  CHECK(all_returned(p.at_a.pool));
}

TEST_CASE("a payload beyond the limit is refused before anyone is asked for room", "[contract]") {
  const auto over = EVERY_UCX_ROUTE;
  const std::size_t bytes = GENERATE(as<std::size_t>(), 1'001, 1'000'000);
  CAPTURE(over, bytes);
  auto options = options_for(over);
  options.max_payload_bytes = 1'000;
  port_pair p(over, options);
  int asked = 0;
  p.at_b.on_destination = [&](const message_id&, const tensor_spec&) { return ++asked, status(); };
  p.connect(1);
  p.a->send(to_b(0), patterned(p.at_a.pool, bytes, 0));
  p.a->send(to_b(1), patterned(p.at_a.pool, 1'000, 1));
  REQUIRE(p.at_b.wait_arrivals(1));
  CHECK(p.b->counters().dropped_refused == 1);
  CHECK(asked == 1);
}

TEST_CASE("a message of an older epoch than the receiver's is dropped, counted and costs no credit", "[contract]") {
  const auto over = EVERY_ROUTE;
  const std::size_t bytes = GENERATE(as<std::size_t>(), 8, 200'000);
  CAPTURE(over, bytes);
  port_pair p(over);
  p.connect(1);
  p.b->set_epoch(5);
  p.b->set_epoch(3);  // never goes back
  p.a->send(to_b(0, 4), patterned(p.at_a.pool, bytes, 0));
  p.a->send(to_b(1, 5), patterned(p.at_a.pool, bytes, 1));
  REQUIRE(p.at_b.wait_arrivals(1));
  CHECK(p.at_b.arrivals()[0].id == to_b(1, 5));
  CHECK(p.b->counters().dropped_stale == 1);
  p.b->consumed(to_b(1, 5));
  p.a->send(to_b(2, 6), patterned(p.at_a.pool, bytes, 2));
  REQUIRE(p.at_b.wait_arrivals(2));
}
