#pragma once

#include <time.h>

#include <cstdint>

namespace troupe {

/// CLOCK_MONOTONIC in nanoseconds: the same clock for every process of one machine.
inline std::int64_t monotonic_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec;
}

}  // namespace troupe
