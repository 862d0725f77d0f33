// Members that are killed or stopped, at any instant.

#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <thread>

#include "kernels/collectives/host_communicator.hpp"
#include "members.hpp"

using namespace troupe;
using namespace troupe::collectives;

namespace {

using std::chrono::milliseconds;

constexpr std::int64_t elements = 30'011;

tensor ones(communicator& c) {
  buffer_pool memory(c.memory());
  auto t = std::move(tensor::make(memory, {dtype::f32, {elements}})).value();
  std::fill_n(t.data<float>(), elements, 1.0F);
  return t;
}

// Operations until one fails; which that is depends on the seed.
status work_until_it_fails(communicator& c, const board& shared) {
  const auto share = elements / c.size();
  const auto x = ones(c), part = ones(c).slice(0, share), whole = ones(c).slice(0, share * c.size());
  shared.flag(0).fetch_add(1);
  for (;;) {
    TROUPE_CHECK(c.all_reduce(x, reduction::max));
    TROUPE_CHECK(c.barrier());
    TROUPE_CHECK(c.reduce_scatter(whole, part));
    TROUPE_CHECK(c.all_gather(part, whole));
    TROUPE_CHECK(c.broadcast(x, 1));
  }
}

// R: runs, S: sleeps, T: stopped.
char state_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  const auto name_ends = line.rfind(')');
  return name_ends == std::string::npos ? '?' : line.at(name_ends + 2);
}

std::string sums_are_right(communicator& c) {
  const auto x = ones(c);
  auto fault = expect_ok(c.all_reduce(x), "the first operation of the next epoch");
  for (auto v : x.values<float>())
    if (v != static_cast<float>(c.size())) fault = "a sum of " + std::to_string(v);
  return fault;
}

}  // namespace

TEST_CASE("a member killed at any instant ends the group at the others within two seconds, and the next epoch works",
          "[collectives]") {
  constexpr std::uint32_t size = 3;
  for (unsigned seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::uint32_t victim = random() % size;
    const bool reaped = seed % 2 == 0;    // else it is a zombie while its place is taken
    const bool at_once = seed % 10 == 0;  // the next epoch begins before the others can have noticed
    const crew group(size, std::size_t{2} << 20);
    const board shared;
    std::vector<pid_t> children;
    for (std::uint32_t r = 0; r < size; ++r)
      children.push_back(start_process([&, r] {
        auto self = group.member(r, 1);
        const auto cause = at_once ? "a later epoch has begun"
                                   : "the process of tensor shard " + std::to_string(victim) + " has ended";
        const auto done = work_until_it_fails(*self, shared);
        auto fault = expect_error(done, errc::collective_aborted, {"epoch 1", cause});
        const auto took = now_ms() - shared.flag(1).load();
        if (took > 2'000) fault += "; noticed after " + std::to_string(took) + " ms";
        shared.flag(2).fetch_add(1);
        self = group.member(r, 2);
        shared.write(r, fault + sums_are_right(*self));
      }));
    shared.wait(0, size);
    for (auto n = random() % 2'000; n > 0; --n) dawdle(random);
    shared.flag(1).store(now_ms());
    ::kill(children[victim], SIGKILL);
    if (reaped) ::waitpid(children[victim], nullptr, 0);
    if (!at_once) shared.wait(2, size - 1);
    const auto replacement = start_process([&] { shared.write(victim, sums_are_right(*group.member(victim, 2))); });
    CHECK(ended_well(replacement));
    if (!reaped) ::waitpid(children[victim], nullptr, 0);
    for (std::uint32_t r = 0; r < size; ++r) {
      CAPTURE(r, victim);
      if (r != victim) CHECK(ended_well(children[r]));
      CHECK(shared.read(r) == "");
    }
  }
}

TEST_CASE("a stopped member is given up at the deadline, and its place is free only when it is dead", "[collectives]") {
  const crew group(2, std::size_t{2} << 20);
  const board shared;
  const auto stopped = start_process([&] {
    const auto self = group.member(1);
    shared.flag(0).store(1);
    (void)self->barrier();
  });
  shared.wait(0, 1);
  while (state_of(stopped) != 'S') std::this_thread::yield();  // now it waits for the other, inside the barrier
  ::kill(stopped, SIGSTOP);
  int state = 0;
  REQUIRE(::waitpid(stopped, &state, WUNTRACED) == stopped);
  const auto survivor = start_process([&] {
    const auto self = group.member(0, 1, milliseconds(200));
    auto fault = expect_ok(self->barrier(), "the barrier that the other has reached");
    fault += expect_error(self->barrier(), errc::collective_aborted, {"shard 1 did not come within 200 ms"});
    shared.write(0, fault);
  });
  CHECK(ended_well(survivor));
  CHECK(shared.read(0) == "");
  const auto next = start_process([&] {
    auto joined = group.join({1, 2, 2, milliseconds(100)});
    auto fault = joined ? "joined beside a live holder"
                        : expect_error(std::move(joined).error(), errc::timed_out, {"is still inside an operation"});
    shared.flag(2).store(1);
    shared.wait(3, 1);
    if (!group.join({1, 2, 3, milliseconds(10'000)})) fault += "; did not join after the holder's death";
    shared.write(1, fault);
  });
  shared.wait(2, 1);
  ::kill(stopped, SIGKILL);
  ::waitpid(stopped, nullptr, 0);
  shared.flag(3).store(1);
  CHECK(ended_well(next));
  CHECK(shared.read(1) == "");
}

TEST_CASE("a member that only looks learns of a death", "[collectives]") {
  const crew two(2, 4096);
  const board shared;
  const auto other = start_process([&] {
    const auto self = two.member(1);
    shared.flag(0).store(1);
    shared.wait(1, 1);
  });
  const auto self = two.member(0);
  auto& here = dynamic_cast<group::host_communicator&>(*self);
  shared.wait(0, 1);
  CHECK(here.look());
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  CHECK(expect_error(here.look(), errc::collective_aborted, {"the process of tensor shard 1 has ended"}) == "");
  CHECK(expect_error(self->barrier(), errc::collective_aborted, {"the process of tensor shard 1 has ended"}) == "");
}
