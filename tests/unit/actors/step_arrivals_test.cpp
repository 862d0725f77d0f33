#include "actors/shard/step_arrivals.hpp"

#include "catch.hpp"

using namespace troupe;

TEST_CASE("a second copy of an arrival is not taken, not even after the first was used", "[arrivals]") {
  buffer_pool pool(host_memory());
  const auto t = tensor::make(pool, {dtype::f32, {1}});
  REQUIRE(t);
  step_arrivals arrivals({2, 0});
  CHECK(arrivals.activation(1)->put(*t));
  CHECK_FALSE(arrivals.activation(1)->put(*t));
  CHECK(arrivals.activation(1)->take());
  CHECK_FALSE(arrivals.activation(1)->waiting());
  CHECK_FALSE(arrivals.activation(1)->put(*t));
  arrivals.clear();
  CHECK(arrivals.activation(1)->put(*t));
}

TEST_CASE("an arrival for a micro-batch that does not exist has no place", "[arrivals]") {
  step_arrivals arrivals({2, 1});
  CHECK(arrivals.gradient(2) == nullptr);
  CHECK(arrivals.shared(1) == nullptr);
  CHECK(arrivals.shared(0) != nullptr);
}
