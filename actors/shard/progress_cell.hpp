#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "actors/schedule/schedule.hpp"

namespace troupe {

/// Where a shard stands, in one word that another process may read after the shard has died: the node agent maps the
/// same page. Written with one plain store per action.
class progress_cell {
public:
  enum class phase : std::uint8_t {
    starting,
    waiting,
    forward,
    backward,
    backward_input,
    backward_weight,
    shared,
    update,
    done
  };

  void set(phase p, std::uint64_t step, std::uint32_t micro_batch) noexcept {
    word_.store((step << 28) | (std::uint64_t{micro_batch & 0xFFFFFF} << 4) | static_cast<std::uint64_t>(p),
                std::memory_order_release);
  }
  phase where() const noexcept { return static_cast<phase>(load() & 0xF); }
  std::uint64_t step() const noexcept { return load() >> 28; }
  std::uint32_t micro_batch() const noexcept { return static_cast<std::uint32_t>(load() >> 4) & 0xFFFFFF; }
  /// Changes whenever the shard moves on; for liveness.
  std::uint64_t load() const noexcept { return word_.load(std::memory_order_acquire); }

  static phase phase_of(pass p) noexcept {
    return static_cast<phase>(static_cast<int>(phase::forward) + static_cast<int>(p));
  }

private:
  std::atomic<std::uint64_t> word_{0};
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
};

/// "at step 41, micro-batch 3, backward".
std::string to_string(const progress_cell& cell);

}  // namespace troupe
