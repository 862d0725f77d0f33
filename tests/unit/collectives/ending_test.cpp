// How a group ends: disagreement, abort, deadline, departure, a later epoch. Nobody waits for ever, and who was thrown
// out may free its tensors at once.

#include <thread>

#include "kernels/collectives/nccl_group.hpp"
#include "members.hpp"

using namespace troupe;
using namespace troupe::collectives;

namespace {

using std::chrono::milliseconds;

tensor make(communicator& c, std::int64_t count, dtype type = dtype::f32) {
  buffer_pool memory(c.memory());
  auto t = std::move(tensor::make(memory, {type, {count}})).value();
  std::fill_n(static_cast<std::uint8_t*>(t.raw()), t.bytes(), std::uint8_t{0});
  return t;
}

std::string first_of(std::initializer_list<std::string> faults) {
  for (const auto& f : faults)
    if (!f.empty()) return f;
  return "";
}

// Each member makes another call; all must say `parts`.
void check_disagreement(const std::function<status(communicator&, bool odd)>& call,
                        std::initializer_list<std::string_view> parts) {
  const auto size = GENERATE(2U, 3U);
  const crew group(size);
  group.run([&](std::uint32_t rank) {
    const auto self = group.member(rank);
    const auto done = call(*self, rank == 1);
    return first_of({expect_error(done, errc::invalid_argument, parts),
                     expect_error(self->barrier(), errc::collective_aborted, {"have disagreed"})});
  });
}

}  // namespace

TEST_CASE("members that want different sizes are all told what each wanted, and the group is over", "[collectives]") {
  check_disagreement([](communicator& c, bool odd) { return c.all_reduce(make(c, odd ? 7 : 5)); },
                     {"0 called all_reduce (sum) of 5 f32", "1 called all_reduce (sum) of 7 f32"});
}

TEST_CASE("members that want different types are all told", "[collectives]") {
  check_disagreement([](communicator& c, bool odd) { return c.all_reduce(make(c, 5, odd ? dtype::bf16 : dtype::f32)); },
                     {"0 called all_reduce (sum) of 5 f32", "1 called all_reduce (sum) of 5 bf16"});
}

TEST_CASE("members that want different operations are all told", "[collectives]") {
  check_disagreement([](communicator& c, bool odd) { return odd ? c.barrier() : c.broadcast(make(c, 5), 0); },
                     {"0 called broadcast of 5 f32 from 0", "1 called barrier"});
}

TEST_CASE("members that name different roots are all told", "[collectives]") {
  check_disagreement([](communicator& c, bool odd) { return c.broadcast(make(c, 5), odd ? 1 : 0); },
                     {"from 0", "from 1"});
}

TEST_CASE("operands that no group could combine are refused, and nobody waits for who called so", "[collectives]") {
  const crew group(2);
  group.run([&](std::uint32_t rank) {
    const auto self = group.member(rank);
    if (auto fault = expect_ok(self->barrier(), "barrier"); rank == 0 || !fault.empty())
      return first_of({fault, expect_error(self->barrier(), errc::collective_aborted, {"tensor shard 1 has left"})});
    return first_of({expect_error(self->all_reduce(make(*self, 4, dtype::i32)), errc::invalid_argument),
                     expect_error(self->all_reduce(tensor()), errc::invalid_argument),
                     expect_error(self->all_gather(make(*self, 3), make(*self, 4)), errc::invalid_argument),
                     expect_error(self->reduce_scatter(make(*self, 4), make(*self, 3)), errc::invalid_argument),
                     expect_error(self->broadcast(make(*self, 4), 2), errc::invalid_argument)});
  });
}

TEST_CASE("an abort from another thread ends what waits, everywhere", "[collectives]") {
  const auto size = GENERATE(2U, 4U);
  const crew group(size);
  const board shared;
  group.run([&](std::uint32_t rank) -> std::string {
    const auto self = group.member(rank);
    if (rank == 0) {  // never comes; another thread of its ends the group
      std::thread other([&] {
        shared.wait(0, size - 1);
        self->abort();
      });
      shared.wait(1, size - 1);
      other.join();
      return expect_error(self->all_reduce(make(*self, 9)), errc::collective_aborted, {"was aborted here"});
    }
    const auto x = make(*self, 9);
    shared.flag(0).fetch_add(1);
    const auto fault = expect_error(self->all_reduce(x), errc::collective_aborted,
                                    {"all_reduce (sum)", "tensor shard 0 has left the group"});
    shared.flag(1).fetch_add(1);
    return fault;
  });
}

TEST_CASE("who does not come in time is named, and the group is over for it too", "[collectives]") {
  const crew group(3);
  const board shared;
  group.run([&](std::uint32_t rank) -> std::string {
    const auto self = group.member(rank, 1, milliseconds(150));
    shared.flag(1).fetch_add(1);
    shared.wait(1, 3);
    if (rank == 1) {
      shared.wait(0, 2);
      return expect_error(self->barrier(), errc::collective_aborted, {"tensor shard 1 did not come within 150 ms"});
    }
    const auto start = now_ms();
    const auto fault = expect_error(self->barrier(), errc::collective_aborted,
                                    {"barrier", "tensor shard 1 did not come within 150 ms"});
    const auto took = now_ms() - start;
    shared.flag(0).fetch_add(1);
    if (took < 149 || took > 3'000) return "gave up after " + std::to_string(took) + " ms";
    return fault;
  });
}

TEST_CASE("a member that goes away ends the group", "[collectives]") {
  const crew group(3);
  group.run([&](std::uint32_t rank) -> std::string {
    const auto self = group.member(rank);
    auto fault = expect_ok(self->barrier(), "barrier");
    if (rank != 2) fault += expect_error(self->barrier(), errc::collective_aborted, {"tensor shard 2 has left"});
    return fault;
  });
}

TEST_CASE("the last operation succeeds at all members though the first one out ends the group", "[collectives]") {
  const crew group(4);
  for (std::uint32_t epoch = 1; epoch <= 200; ++epoch)
    group.run([&](std::uint32_t rank) {
      std::mt19937 random(epoch * 8 + rank);
      const auto self = group.member(rank, epoch);
      const auto x = make(*self, 100);
      dawdle(random);
      return expect_ok(self->all_reduce(x), "all_reduce in epoch " + std::to_string(epoch));
    });
}

TEST_CASE("an aborted member may free its tensors at once, however far the others were", "[collectives]") {
  constexpr std::int64_t large = 3 << 20;  // elements, so that freed memory leaves the process
  const crew group(3, std::size_t{32} << 20);
  for (std::uint32_t epoch = 1; epoch <= 25; ++epoch) {
    const board shared;
    group.run([&](std::uint32_t rank) -> std::string {
      std::mt19937 random(epoch * 8 + rank);
      const auto self = group.member(rank, epoch);
      auto x = make(*self, large), part = make(*self, large / 3);
      std::thread other([&] {
        if (rank != epoch % 3) return;
        shared.wait(0, 3);
        for (auto n = random() % 40; n > 0; --n) dawdle(random);
        self->abort();
      });
      shared.flag(0).fetch_add(1);
      status done;
      for (int i = 0; done && i < 100'000; ++i)
        done = i % 3 == 0   ? self->all_reduce(x)
               : i % 3 == 1 ? self->reduce_scatter(x, part)
                            : self->all_gather(part, x);
      // Now a late write of another member would show, or a late read would fault.
      std::fill_n(x.data<float>(), x.elements(), 1.0F);
      auto fault = expect_error(done, errc::collective_aborted);
      for (std::int64_t i = 0; i < large; i += 997)
        if (x.data<float>()[i] != 1.0F) fault = "seed " + std::to_string(epoch) + ": written to after the abort";
      x = tensor();
      other.join();
      return fault;
    });
  }
}

TEST_CASE("a later epoch begins clean and throws out the members of the earlier one", "[collectives]") {
  const crew group(3);
  const board shared;
  group.run([&](std::uint32_t rank) -> std::string {
    const auto old = group.member(rank, 4);
    auto fault = expect_ok(old->all_reduce(make(*old, 10)), "epoch 4");
    shared.flag(1).fetch_add(1);
    shared.wait(1, 3);
    if (rank == 0) {  // waits in vain: the others form the group anew
      shared.flag(0).store(1);
      fault += expect_error(old->all_reduce(make(*old, 5'000)), errc::collective_aborted, {"a later epoch has begun"});
    } else {
      shared.wait(0, 1);
    }
    const auto self = group.member(rank, 6);
    const auto x = make(*self, 1'000);
    std::fill_n(x.data<float>(), 1'000, static_cast<float>(rank + 1));
    fault += expect_ok(self->all_reduce(x), "epoch 6");
    for (auto v : x.values<float>())
      if (v != 6.0F) fault = "a sum of " + std::to_string(v);
    fault += expect_error(old->barrier(), errc::collective_aborted, {"epoch 4", "a later epoch has begun"});
    fault += expect_ok(self->barrier(), "after an old member has called");
    return fault;
  });
}

TEST_CASE("a rank joins an epoch once, and never one that is over", "[collectives]") {
  const crew group(2);
  const auto refusal = [&](std::uint32_t epoch) {
    auto joined = group.join({0, 2, epoch, milliseconds(1'000)});
    return joined ? status() : status(std::move(joined).error());
  };
  const auto self = group.member(0, 3);
  CHECK(expect_error(refusal(3), errc::invalid_argument, {"has joined before"}) == "");
  CHECK(expect_error(refusal(2), errc::collective_aborted, {"that epoch is over"}) == "");
  self->abort();
  const auto later = group.member(0, 4);
  CHECK(expect_error(refusal(3), errc::collective_aborted, {"that epoch is over"}) == "");
  CHECK(expect_error(self->barrier(), errc::collective_aborted, {"the group was aborted here"}) == "");
}

TEST_CASE("settings that are no group's are refused", "[collectives]") {
  const crew group(2);
  for (const host_group_settings& s :
       {host_group_settings{2, 2}, host_group_settings{0, 0}, host_group_settings{0, 65}, host_group_settings{0, 3}}) {
    CHECK_FALSE(thread_group(2).join(s));
    CHECK_FALSE(join_host_group(group.descriptor(), s));
  }
}

TEST_CASE("an NCCL group is refused to a backend of the CPU, in every build", "[collectives]") {
  const auto ops = std::move(make_cpu_backend()).value();
  const auto refused = join_nccl_group(*ops, std::move(thread_group(1).join({})).value());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::invalid_argument);
}
