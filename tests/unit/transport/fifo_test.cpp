#include "transport/fifo.hpp"

#include <memory>

#include "catch.hpp"
#include "transport/object_pool.hpp"

using namespace troupe;

TEST_CASE("a fifo gives back in order what went in, however long it is never empty", "[fifo]") {
  fifo<std::unique_ptr<int>> queue;
  int next_in = 0, next_out = 0;
  for (int round = 0; round < 1'000; ++round) {
    for (int i = 0; i < 5; ++i) queue.push(std::make_unique<int>(next_in++));
    for (int i = 0; i < (round < 500 ? 4 : 5); ++i) REQUIRE(*queue.pop() == next_out++);
    REQUIRE(queue.size() == static_cast<std::size_t>(next_in - next_out));
  }
  while (!queue.empty()) REQUIRE(*queue.pop() == next_out++);
  CHECK(next_out == next_in);
}

TEST_CASE("a pool hands out again what was given back", "[fifo]") {
  object_pool<int> pool;
  int* first = pool.take();
  int* second = pool.take();
  CHECK(first != second);
  CHECK(pool.in_use() == 2);
  pool.give_back(first);
  CHECK(pool.take() == first);
  int visited = 0;
  pool.for_each([&](int&) { ++visited; });
  CHECK(visited == 2);
}
