#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe {

/// The operands whose values only the device can check.
enum class checked_indices : std::uint8_t { embedding_token, embedding_backward_token, cross_entropy_target };
inline constexpr std::size_t checked_operands = 3;

/// The first index that a kernel found outside [0, limit).
struct index_fault {
  std::int32_t found = 0;  // 1 when there is one
  std::int32_t value = 0;
  std::int64_t place = 0, limit = 0;
};

/// What the device tells the host: pinned memory that kernels write and the host reads after a synchronise.
struct device_report {
  index_fault faults[checked_operands];
  double squared_norm = 0;
};

}  // namespace troupe
