#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "kernels/core/dtype.hpp"

namespace troupe::group {

inline constexpr std::uint32_t most_members = 64;

enum class operation : std::uint32_t { all_reduce_sum, all_reduce_max, all_gather, reduce_scatter, broadcast, barrier };

/// What a member wants: all must want the same. `address` is an offset into its arena, or with threads an address.
struct request {
  operation what = operation::barrier;
  dtype type = dtype::u8;
  std::uint32_t root = 0;
  std::uint64_t elements = 0;  ///< of the larger tensor
  std::uint64_t address = 0;   ///< of what the others read
};

std::string_view to_string(operation what) noexcept;
/// "broadcast of 12 f32 from 1".
std::string to_string(const request& r);
/// Addresses apart.
bool same(const request& a, const request& b) noexcept;

/// What the holder of a place is doing.
enum class phase : std::uint8_t {
  outside,   ///< no operation
  inside,    ///< joining, or in an operation
  touching,  ///< in an operation, reading and writing other members' tensors
};

/// Who holds a member's place, in one atomic word, so that a place is taken, entered and left by one comparison.
struct holder {
  std::uint32_t epoch = 0;
  std::uint8_t born = 0;  ///< the low bits of the process's start in the kernel's ticks: a pid may be used again
  std::uint32_t pid = 0;  ///< below 2²², the kernel's limit; 0: nobody yet
  phase doing = phase::outside;

  constexpr std::uint64_t word() const noexcept {
    return std::uint64_t{epoch} << 32 | std::uint64_t{born} << 24 | std::uint64_t{pid} << 2 |
           static_cast<std::uint64_t>(doing);
  }
  static constexpr holder of(std::uint64_t word) noexcept {
    return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint8_t>(word >> 24 & 0xFF),
            static_cast<std::uint32_t>(word >> 2 & 0x3FFFFF), static_cast<phase>(word & 3)};
  }
  constexpr holder now(phase p) const noexcept { return {epoch, born, pid, p}; }
};

/// One member's place in the shared state. Only its holder writes it, but for `sleepers` and the taking of a place.
struct alignas(64) member {
  /// epoch · 2³² + how often the member has arrived at a meeting in this epoch. Never falls. The low half is a futex.
  std::atomic<std::uint64_t> arrived{0};
  /// Who waits on `arrived`; a death may leave it too high, which costs a system call.
  std::atomic<std::uint32_t> sleepers{0};
  alignas(64) std::atomic<std::uint64_t> held_by{0};
  /// By the operation's number, odd or even: the next one may be written while a slower member reads this one.
  alignas(64) request wanted[2];
};

/// Why an epoch is over.
enum class ending : std::uint8_t { left, died, late, disagreed, superseded };

/// All that members of a group share beside their tensors. Zero bytes are a valid beginning.
struct state {
  std::uint64_t magic = 0, arena_bytes = 0;
  std::uint32_t size = 0;
  /// Which epochs are over: (one above the highest of them) · 2³² + why · 2⁸ + the rank to blame. Never falls.
  alignas(64) std::atomic<std::uint64_t> over{0};
  member members[most_members];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace troupe::group
