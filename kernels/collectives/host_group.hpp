#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "kernels/collectives/communicator.hpp"

namespace troupe {

/// What every member of a host group must state alike, its rank apart.
struct host_group_settings {
  std::uint32_t rank = 0, size = 1;
  /// Raised whenever the group is formed anew after a member was lost: members of an older epoch, and what they left
  /// behind, are fenced off.
  std::uint32_t epoch = 1;
  std::chrono::milliseconds deadline{30'000};  ///< how long an operation waits for the slowest member
};

/// Memory where the shards of one group meet. Holds no names in any file system: it is gone with its last user.
class host_group_segment {
public:
  /// For members that are processes: an anonymous file (memfd) of `size` members, each with `arena_bytes` of address
  /// space for its tensors (pages are taken as they are touched). The descriptor closes on exec: give it to a child by
  /// dup2.
  /// Errors: `system_failure`, `out_of_memory`.
  static result<host_group_segment> make(std::uint32_t size, std::size_t arena_bytes);
  host_group_segment(host_group_segment&& other) noexcept;
  host_group_segment& operator=(host_group_segment&& other) noexcept;
  ~host_group_segment();
  int descriptor() const noexcept { return descriptor_; }

private:
  host_group_segment() = default;
  int descriptor_ = -1;
};

/// A member that is a process. `descriptor` is the segment's; it is not needed afterwards. The others may come later,
/// within the first operation's deadline. Every member watches the others' processes by pidfd: a death aborts the group
/// within about 100 ms. Joining ends all earlier epochs. It returns at once, unless an earlier holder of this rank is
/// still inside an operation: then when that has left it, which is bounded for whoever runs. The member's part of the
/// segment is its own from then on: a process that joins again must have dropped the tensors of its earlier membership.
/// Errors: `invalid_argument` (rank, size, a descriptor that is no segment for this size, a rank that has joined this
/// epoch before), `collective_aborted` (this epoch is over), `timed_out` (the earlier holder, alive, does not leave its
/// operation within the deadline: a stopped process), `system_failure`.
result<std::unique_ptr<communicator>> join_host_group(int descriptor, const host_group_settings& settings);

/// A group whose members are threads of this process and may use any memory of it.
class thread_group {
public:
  explicit thread_group(std::uint32_t size);
  thread_group(thread_group&&) noexcept = default;
  ~thread_group();
  /// A member; the group outlives this object as long as members are left. One call for each rank and epoch.
  /// Errors: as `join_host_group`.
  result<std::unique_ptr<communicator>> join(const host_group_settings& settings);

private:
  struct shared;
  std::shared_ptr<shared> shared_;
};

}  // namespace troupe
