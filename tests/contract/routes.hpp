#pragma once

#include <cstring>
#include <memory>
#include <thread>

#include "catch.hpp"
#include "recorder.hpp"
#include "transport/in_process.hpp"
#include "transport/ucx_port.hpp"

namespace troupe::contract {

enum class route { in_process, shared_memory, tcp };

inline std::ostream& operator<<(std::ostream& out, route r) {
  return out << (r == route::in_process ? "in process" : r == route::shared_memory ? "shared memory" : "tcp");
}

/// Runs the rest of a test case once for every route, or for those between processes.
#define EVERY_ROUTE GENERATE(route::in_process, route::shared_memory, route::tcp)
#define EVERY_UCX_ROUTE GENERATE(route::shared_memory, route::tcp)

const shard_id shard_a{0, 0, 0}, shard_b{0, 1, 0};

inline run_key test_key() {
  run_key key;
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(i * 17 + 3);
  return key;
}

inline port_options options_for(route r) {
  port_options options;
  options.key = test_key();
  options.route = r == route::tcp ? port_route::tcp : port_route::shared_memory;
  return options;
}

/// Two ports of one route in this process, each on a loop of its own.
struct port_pair {
  port_pair(route r, port_options with) : over(r), options(with) {
    a = make(loop_a, shard_a, at_a);
    b = make(loop_b, shard_b, at_b);
  }
  explicit port_pair(route r) : port_pair(r, options_for(r)) {}

  std::unique_ptr<tensor_port> make(event_loop& loop, shard_id self, port_listener& listener) {
    if (over == route::in_process) return exchange.make_port(self, listener);
    auto made = make_ucx_port(loop, options, self, listener);
    if (!made) FAIL(to_string(made.error()));
    return *std::move(made);
  }

  void connect(std::uint32_t credits = 8) {
    const auto before_a = at_a.ready(), before_b = at_b.ready();
    a->connect(shard_b, b->address(), credits);
    b->connect(shard_a, a->address(), credits);
    REQUIRE(at_a.wait_ready(before_a + 1));
    REQUIRE(at_b.wait_ready(before_b + 1));
  }

  const route over;
  const port_options options;
  event_loop loop_a{"contract a"}, loop_b{"contract b"};
  in_process_exchange exchange;
  recorder at_a, at_b;
  std::unique_ptr<tensor_port> a, b;
};

inline message_id to_b(std::uint32_t micro_batch, std::uint32_t epoch = 0) {
  return {.source = shard_a, .destination = shard_b, .epoch = epoch, .micro_batch = micro_batch};
}

/// The same message on its way back.
inline message_id reversed(message_id id) {
  std::swap(id.source, id.destination);
  return id;
}

/// A tensor of bytes whose every byte depends on its place and on `seed`.
inline tensor patterned(buffer_pool& pool, std::size_t bytes, std::uint64_t seed) {
  auto made = tensor::make(pool, {dtype::u8, {static_cast<std::int64_t>(bytes)}});
  if (!made) FAIL(to_string(made.error()));
  auto* out = static_cast<std::uint8_t*>(made->raw());
  std::uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
  for (std::size_t i = 0; i < bytes; i += 8) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    std::memcpy(out + i, &state, std::min<std::size_t>(8, bytes - i));
  }
  return *std::move(made);
}

inline bool same_bytes(const tensor& x, const tensor& y) {
  return x.spec() == y.spec() && (x.bytes() == 0 || std::memcmp(x.raw(), y.raw(), x.bytes()) == 0);
}

/// Waits for what has no event: that a pool has all its memory back.
inline bool all_returned(const buffer_pool& pool) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (pool.stats().bytes_in_use > 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return pool.stats().bytes_in_use == 0;
}

/// Waits for a counter of a port, which has no event either.
inline bool counts(const tensor_port& port, std::uint64_t port_counters::*counter, std::uint64_t value) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (port.counters().*counter < value && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return port.counters().*counter == value;
}

}  // namespace troupe::contract
