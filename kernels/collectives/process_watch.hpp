#pragma once

#include <vector>

#include "kernels/collectives/group_state.hpp"

namespace troupe::group {

/// This process as the holder of a place in `epoch`.
holder this_process(std::uint32_t epoch);

/// Notices when the processes that hold places have ended, reaped or not. Keeps a pidfd for each from its first look.
class process_watch {
public:
  explicit process_watch(std::uint32_t size) : watched_(size) {}
  ~process_watch();
  process_watch(const process_watch&) = delete;
  process_watch& operator=(const process_watch&) = delete;

  /// Whether the process that `who` names has ended. False where the kernel does not tell (no descriptors left).
  bool has_ended(std::uint32_t rank, holder who);

private:
  struct entry {
    holder who;
    int pidfd = -1;
    bool ended = false;
  };
  std::vector<entry> watched_;
};

}  // namespace troupe::group
