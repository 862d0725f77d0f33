#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/core/tensor.hpp"

namespace troupe::collectives {

inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9U;
  x = (x ^ x >> 27) * 0x94D049BB133111EBU;
  return x ^ x >> 31;
}

/// Element `i` of a member's tensor: magnitudes over five decades and both signs, so that another order of a sum has
/// other bits.
inline float number(std::uint64_t seed, std::uint32_t rank, std::uint64_t i) {
  const auto bits = mixed(seed * 1'000'003 + rank * 0x9E3779B97F4A7C15U + i);
  const auto unit = static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31F;
  return std::ldexp(unit, static_cast<int>(bits >> 40 & 15) - 8);
}

inline float widened(std::uint16_t x) { return std::bit_cast<float>(std::uint32_t{x} << 16); }

/// The bf16 nearest to `x`, found by comparing distances; a tie goes to the even one. `x` is finite.
inline std::uint16_t nearest_bf16(float x) {
  const auto low = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);  // towards zero
  const auto high = static_cast<std::uint16_t>(low + 1);
  const double below = std::abs(double{x} - widened(low)), above = std::abs(double{widened(high)} - x);
  return below < above || (below == above && low % 2 == 0) ? low : high;
}

/// A type's element as a number, stored at place `i` of raw memory.
inline void store(dtype type, void* memory, std::uint64_t i, float value) {
  switch (type) {
    case dtype::f32:
      static_cast<float*>(memory)[i] = value;
      break;
    case dtype::bf16:
      static_cast<std::uint16_t*>(memory)[i] = nearest_bf16(value);
      break;
    case dtype::i32:
      static_cast<std::int32_t*>(memory)[i] = static_cast<std::int32_t>(value * 1e6F);
      break;
    case dtype::u8:
      static_cast<std::uint8_t*>(memory)[i] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(value) >> 9);
      break;
  }
}

inline float load(dtype type, const void* memory, std::uint64_t i) {
  return type == dtype::f32 ? static_cast<const float*>(memory)[i]
                            : widened(static_cast<const std::uint16_t*>(memory)[i]);
}

}  // namespace troupe::collectives
