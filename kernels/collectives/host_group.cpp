#include "kernels/collectives/host_group.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "kernels/collectives/host_communicator.hpp"
#include "kernels/collectives/segment.hpp"

namespace troupe {

namespace {

status check(const host_group_settings& s) {
  if (s.size >= 1 && s.size <= group::most_members && s.rank < s.size) return {};
  return invalid(fmt::format("a host group has 1 to {} members and ranks below its size; rank {} of {} is none",
                             group::most_members, s.rank, s.size));
}

}  // namespace

// --- processes -------------------------------------------------------------------------------------------------------

result<host_group_segment> host_group_segment::make(std::uint32_t size, std::size_t arena_bytes) {
  TROUPE_CHECK(check({0, size, 1, {}}));
  host_group_segment made;
  made.descriptor_ = ::memfd_create("troupe-group", MFD_CLOEXEC);
  if (made.descriptor_ < 0)
    return error{errc::system_failure, fmt::format("creating a host group's memory: {}", std::strerror(errno)), errno};
  TROUPE_CHECK(group::segment::lay_out(made.descriptor_, size, arena_bytes));
  return made;
}

host_group_segment::host_group_segment(host_group_segment&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

host_group_segment& host_group_segment::operator=(host_group_segment&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

host_group_segment::~host_group_segment() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

result<std::unique_ptr<communicator>> join_host_group(int descriptor, const host_group_settings& settings) {
  TROUPE_CHECK(check(settings));
  TROUPE_TRY(auto mapped, group::segment::map(descriptor, settings.size));
  auto& shared = mapped->shared();
  auto* arenas = mapped->arenas();
  auto own = std::make_shared<group::arena>(mapped, settings.rank);
  return group::host_communicator::join(std::move(mapped), shared, arenas, std::move(own), settings);
}

// --- threads ---------------------------------------------------------------------------------------------------------

struct thread_group::shared {
  group::state members;
};

thread_group::thread_group(std::uint32_t size) : shared_(std::make_shared<shared>()) { shared_->members.size = size; }
thread_group::~thread_group() = default;

result<std::unique_ptr<communicator>> thread_group::join(const host_group_settings& settings) {
  TROUPE_CHECK(check(settings));
  if (settings.size != shared_->members.size)
    return invalid(fmt::format("a group of {} threads was joined as one of {}", shared_->members.size, settings.size));
  return group::host_communicator::join(shared_, shared_->members, nullptr, host_memory(), settings);
}

}  // namespace troupe
