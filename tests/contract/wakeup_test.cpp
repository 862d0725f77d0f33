// Sleeping on UCX's event fd: nothing is missed, and nothing is burnt while nothing happens.
#include <time.h>

#include <boost/asio/post.hpp>
#include <future>

#include "routes.hpp"

using namespace troupe;
using namespace troupe::contract;

namespace {

std::int64_t cpu_ns_of(event_loop& loop) {
  std::promise<std::int64_t> used;
  boost::asio::post(loop.context(), [&] {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    used.set_value(t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec);
  });
  return used.get_future().get();
}

}  // namespace

TEST_CASE("ten thousand round trips without polling never wait for the belt", "[contract]") {
  using clock = std::chrono::steady_clock;
  const auto over = EVERY_UCX_ROUTE;
  const std::size_t bytes = GENERATE(as<std::size_t>(), 8, 20'000);
  CAPTURE(over, bytes);
  auto options = options_for(over);
  options.spin = std::chrono::microseconds(0);
  port_pair p(over, options);
  constexpr std::uint32_t count = 10'000;
  std::uint32_t done = 0, stalled = 0;
  auto sent_at = clock::now();
  p.at_b.on_arrival = [&](const message_id& id, tensor t) {
    p.b->consumed(id);
    p.b->send(reversed(id), std::move(t));
  };
  p.at_a.on_arrival = [&](const message_id& id, tensor t) {
    p.a->consumed(id);
    // The belt's period is 100 ms and more: who waited for it took about that long.
    stalled += clock::now() - sent_at > std::chrono::milliseconds(95);
    sent_at = clock::now();
    if (id.micro_batch < count) p.a->send(to_b(id.micro_batch + 1), std::move(t));
    p.at_a.note([&] { done = id.micro_batch; });
  };
  p.connect(1);
  p.a->send(to_b(0), patterned(p.at_a.pool, bytes, 1));
  REQUIRE(p.at_a.wait([&] { return done == count; }));
  CHECK(stalled <= 2);  // a busy machine may hold a thread that long once or twice
}

TEST_CASE("connected ports that have nothing to do use no CPU", "[contract]") {
  const auto over = EVERY_UCX_ROUTE;
  CAPTURE(over);
  port_pair p(over);
  p.connect(4);
  p.a->send(to_b(0), patterned(p.at_a.pool, 100'000, 1));
  REQUIRE(p.at_b.wait_arrivals(1));
  const auto before = cpu_ns_of(p.loop_a) + cpu_ns_of(p.loop_b);
  std::this_thread::sleep_for(std::chrono::seconds(2));  // the idle time that is measured
  const auto used = cpu_ns_of(p.loop_a) + cpu_ns_of(p.loop_b) - before;
  CHECK(used < 10'000'000);  // 10 ms of two threads' 4 s
}
