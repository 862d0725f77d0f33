#pragma once

#include "kernels/ops/cpu/exponential.hpp"

namespace troupe {

TROUPE_INLINE float largest(const float* x, std::int64_t n) {
  return reduce<float>(
      n, x[0], [x](std::int64_t i) __attribute__((always_inline)) { return x[i]; },
      [](float a, float b) __attribute__((always_inline)) { return b > a ? b : a; });
}

/// x[i] becomes e^(x[i] − shift); returns their sum.
TROUPE_INLINE float exponentiate_and_sum(float* x, std::int64_t n, float shift) {
  return sum<float>(
      n, [ x, shift ](std::int64_t i) __attribute__((always_inline)) { return x[i] = exponential(x[i] - shift); });
}

}  // namespace troupe
