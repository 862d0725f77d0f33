#include <thread>

#include "catch.hpp"
#include "kernels/core/tensor.hpp"

using namespace troupe;

TEST_CASE("a pool hands a returned block out again instead of asking the device", "[core]") {
  buffer_pool pool(host_memory());
  const void* first = nullptr;
  for (int i = 0; i < 100; ++i) {
    auto b = pool.take(1000);
    REQUIRE(b);
    if (i == 0) first = b->data();
    CHECK(b->data() == first);
  }
  CHECK(pool.stats().device_allocations == 1);
  CHECK(pool.stats().bytes_in_use == 0);
}

TEST_CASE("a size class wastes at most an eighth", "[core]") {
  buffer_pool pool(host_memory());
  for (std::size_t bytes : {513UL, 1000UL, 1024UL, 4097UL, 1UL << 20, (1UL << 20) + 1, 123456789UL}) {
    auto b = pool.take(bytes);
    REQUIRE(b);
    CHECK(b->capacity() >= bytes);
    CHECK(b->capacity() <= bytes + bytes / 8 + 512);
  }
}

TEST_CASE("two sizes never share a free list", "[core]") {
  buffer_pool pool(host_memory());
  for (std::size_t bytes = 1; bytes < 1 << 16; bytes += 37) {
    auto b = pool.take(bytes);
    REQUIRE(b);
    CHECK(b->capacity() >= bytes);
  }
}

TEST_CASE("a buffer outlives its pool and may be dropped on another thread", "[core]") {
  tensor kept;
  {
    buffer_pool pool(host_memory());
    kept = *tensor::make(pool, {dtype::f32, {4}});
  }
  kept.values<float>()[3] = 1;
  CHECK_FALSE(tensor(kept).unique());
  std::thread([t = std::move(kept)]() mutable { t = tensor(); }).join();
}

TEST_CASE("shapes know their rows and elements", "[core]") {
  const shape s{2, 3, 4};
  CHECK(s.elements() == 24);
  CHECK(s.rows() == 6);
  CHECK(to_string(tensor_spec{dtype::bf16, s}) == "bf16 [2, 3, 4]");
  CHECK(shape{}.elements() == 1);
}
