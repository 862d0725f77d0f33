// The memory of a group of processes: whose it is, and that nothing of it is left behind.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "members.hpp"

using namespace troupe;
using namespace troupe::collectives;

namespace {

std::ptrdiff_t entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

}  // namespace

TEST_CASE("between processes a tensor of other memory is refused", "[collectives]") {
  const crew group(2);
  group.run([&](std::uint32_t rank) {
    const auto self = group.member(rank);
    buffer_pool elsewhere(host_memory());
    const auto x = std::move(tensor::make(elsewhere, {dtype::f32, {8}})).value();
    const auto both = expect_ok(self->barrier(), "barrier");
    if (rank == 0) return both + expect_error(self->barrier(), errc::collective_aborted, {"tensor shard 1 has left"});
    return both + expect_error(self->all_reduce(x), errc::invalid_argument, {"does not come from its group's memory"});
  });
}

TEST_CASE("a member's memory is bounded, aligned and used again", "[collectives]") {
  const crew group(2, 4096);
  const auto memory = group.member(1)->memory();
  const auto first = memory->allocate(1000), second = memory->allocate(3050);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(reinterpret_cast<std::uintptr_t>(*second) % 64 == 0);
  CHECK(static_cast<char*>(*second) - static_cast<char*>(*first) == 1024);
  const auto refused = memory->allocate(64);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::out_of_memory);
  CHECK(refused.error().where == "allocating 64 bytes of a host group's memory, of which 0 of 4096 are left");
  memory->release(*first, 1000);
  CHECK(memory->allocate(1001).value() == *first);
}

TEST_CASE("what is no segment of this size is refused by its descriptor", "[collectives]") {
  const crew two(2, 4096);
  const host_group_settings three{0, 3};
  CHECK(join_host_group(two.descriptor(), three).error().code == errc::invalid_argument);
  CHECK(join_host_group(-1, three).error().code == errc::invalid_argument);
  const int folder = ::open("/", O_RDONLY | O_CLOEXEC), other = ::memfd_create("other", MFD_CLOEXEC);
  CHECK(join_host_group(folder, three).error().code == errc::invalid_argument);
  CHECK(join_host_group(other, three).error().code == errc::invalid_argument);
  REQUIRE(::ftruncate(other, 1 << 20) == 0);
  CHECK(join_host_group(other, three).error().code == errc::invalid_argument);
  ::close(folder);
  ::close(other);
}

TEST_CASE("groups leave no descriptor and no name behind", "[collectives]") {
  const auto descriptors = entries("/proc/self/fd"), names = entries("/dev/shm");
  for (int i = 0; i < 5; ++i) {
    const crew group(3);
    const board shared;
    group.run([&](std::uint32_t rank) -> std::string {
      const auto before = entries("/proc/self/fd");
      auto self = group.member(rank, 1, std::chrono::milliseconds(60));
      shared.flag(1).fetch_add(1);
      shared.wait(1, 3);
      auto fault = expect_ok(self->barrier(), "barrier");
      if (rank != 2) fault += expect_error(self->barrier(), errc::collective_aborted);  // so long that pidfds are open
      if (rank != 2) shared.flag(0).fetch_add(1);
      if (rank == 2) shared.wait(0, 2);
      self.reset();
      if (entries("/proc/self/fd") != before) fault += "descriptors are left";
      return fault;
    });
  }
  CHECK(entries("/proc/self/fd") == descriptors);
  CHECK(entries("/dev/shm") == names);
}
