// Payloads beyond what 32 bits count.
#include "routes.hpp"

using namespace troupe;
using namespace troupe::contract;

TEST_CASE("three gigabytes and a byte arrive as they were sent", "[contract]") {
  const auto over = EVERY_UCX_ROUTE;
  const std::size_t bytes = GENERATE(as<std::size_t>(), (std::size_t{3} << 30) + 1, (std::size_t{1} << 31) - 1);
  CAPTURE(over, bytes);
  port_pair p(over);
  p.connect(1);
  const tensor original = patterned(p.at_a.pool, bytes, 1);
  p.a->send(to_b(0), original);
  REQUIRE(p.at_b.wait_arrivals(1));
  CHECK(same_bytes(p.at_b.arrivals()[0].payload, original));
}
