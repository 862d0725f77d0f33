#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/collectives/group_state.hpp"
#include "kernels/core/device.hpp"

namespace troupe::group {

/// A mapping of a whole segment: the shared state, then the members' arenas, one behind the other.
class segment {
public:
  /// Lays out an empty segment of `size` members in the file. Errors: `system_failure`.
  static status lay_out(int descriptor, std::uint32_t size, std::size_t arena_bytes);
  /// Errors: `invalid_argument` (no segment for this size), `system_failure`.
  static result<std::shared_ptr<segment>> map(int descriptor, std::uint32_t size);
  ~segment();
  segment(const segment&) = delete;
  segment& operator=(const segment&) = delete;

  state& shared() const noexcept { return *reinterpret_cast<state*>(memory_); }
  std::byte* arenas() const noexcept;

private:
  segment(void* memory, std::size_t bytes) : memory_(static_cast<std::byte*>(memory)), bytes_(bytes) {}
  std::byte* memory_;
  std::size_t bytes_;
};

/// One member's part of a segment as a source of memory: what comes back is handed out again by size. Pools above it
/// ask rarely.
class arena final : public memory_source {
public:
  arena(std::shared_ptr<segment> home, std::uint32_t rank);
  device where() const noexcept override { return {}; }
  result<void*> allocate(std::size_t bytes) override;
  void release(void* memory, std::size_t bytes) noexcept override;

private:
  std::shared_ptr<segment> home_;
  std::mutex mutex_;
  std::byte *next_, *end_;
  std::map<std::size_t, std::vector<void*>> free_;
};

}  // namespace troupe::group
