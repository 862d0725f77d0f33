#include "kernels/collectives/segment.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace troupe::group {

namespace {

constexpr std::uint64_t segment_magic = 0x70756f7247747274;  // "trtGroup"
constexpr std::size_t page = 4096;

constexpr std::size_t up_to(std::size_t unit, std::size_t bytes) { return (bytes + unit - 1) / unit * unit; }
constexpr std::size_t head_bytes = up_to(page, sizeof(state));

error system_error(std::string_view what) {
  return {errc::system_failure, fmt::format("{}: {}", what, std::strerror(errno)), errno};
}

void* map_shared(int descriptor, std::size_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
}

}  // namespace

status segment::lay_out(int descriptor, std::uint32_t size, std::size_t arena_bytes) {
  arena_bytes = up_to(page, arena_bytes);
  if (::ftruncate(descriptor, static_cast<off_t>(head_bytes + size * arena_bytes)) != 0)
    return system_error("sizing a host group's memory");
  void* head = map_shared(descriptor, head_bytes);
  if (head == MAP_FAILED) return system_error("mapping a host group's memory");
  auto* shared = new (head) state;
  shared->magic = segment_magic;
  shared->arena_bytes = arena_bytes;
  shared->size = size;
  ::munmap(head, head_bytes);
  return {};
}

result<std::shared_ptr<segment>> segment::map(int descriptor, std::uint32_t size) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return invalid("a host group's descriptor is not open");
  const auto bytes = static_cast<std::size_t>(info.st_size);
  if (!S_ISREG(info.st_mode) || bytes < head_bytes)
    return invalid("a host group's descriptor is no such group's memory");
  void* memory = map_shared(descriptor, bytes);
  if (memory == MAP_FAILED) return system_error("mapping a host group's memory");
  std::shared_ptr<segment> mapped(new segment(memory, bytes));
  const auto& shared = mapped->shared();
  if (shared.magic != segment_magic || shared.size != size || bytes != head_bytes + size * shared.arena_bytes)
    return invalid(fmt::format("a host group's descriptor is no memory of a group of {}", size));
  return mapped;
}

segment::~segment() { ::munmap(memory_, bytes_); }

std::byte* segment::arenas() const noexcept { return memory_ + head_bytes; }

arena::arena(std::shared_ptr<segment> home, std::uint32_t rank)
    : home_(std::move(home)), next_(home_->arenas() + rank * home_->shared().arena_bytes) {
  end_ = next_ + home_->shared().arena_bytes;
}

result<void*> arena::allocate(std::size_t bytes) {
  bytes = up_to(64, bytes);
  std::lock_guard lock(mutex_);
  if (auto& same_size = free_[bytes]; !same_size.empty()) {
    void* memory = same_size.back();
    same_size.pop_back();
    return memory;
  }
  const auto left = static_cast<std::size_t>(end_ - next_);
  if (bytes > left)
    return error{errc::out_of_memory,
                 fmt::format("allocating {} bytes of a host group's memory, of "
                             "which {} of {} are left",
                             bytes, left, home_->shared().arena_bytes),
                 0};
  return static_cast<void*>(std::exchange(next_, next_ + bytes));
}

void arena::release(void* memory, std::size_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  free_[up_to(64, bytes)].push_back(memory);
}

}  // namespace troupe::group
