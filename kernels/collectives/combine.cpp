#include "kernels/collectives/combine.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/ops/cpu/vectorised.hpp"

namespace troupe::group {

namespace {

constexpr std::size_t tile_elements = 2048;  // stays in the first cache while every member's block passes

TROUPE_VECTORISED void add(float* tile, const float* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) tile[i] += x[i];
}

TROUPE_VECTORISED void take_larger(float* tile, const float* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) tile[i] = x[i] > tile[i] || x[i] != x[i] ? x[i] : tile[i];
}

TROUPE_INLINE float widen(std::uint16_t x) { return std::bit_cast<float>(std::uint32_t{x} << 16); }

// To the nearest, ties to even; NaN stays NaN.
TROUPE_INLINE std::uint16_t round(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto rounded = static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
  return (bits & 0x7FFFFFFFU) > 0x7F800000U ? static_cast<std::uint16_t>(bits >> 16 | 0x40U) : rounded;
}

TROUPE_VECTORISED void widen_all(const std::uint16_t* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = widen(x[i]);
}

TROUPE_VECTORISED void round_all(const float* x, std::uint16_t* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = round(x[i]);
}

void join(float* tile, const float* x, std::size_t n, reduction how) {
  how == reduction::sum ? add(tile, x, n) : take_larger(tile, x, n);
}

void combine_f32(std::span<std::byte* const> from, std::size_t first, std::span<std::byte* const> to, std::size_t at,
                 std::size_t n, reduction how) {
  alignas(64) float tile[tile_elements];
  const auto source = [&](std::size_t r) { return reinterpret_cast<const float*>(from[r]) + first; };
  std::memcpy(tile, source(0), n * sizeof(float));
  for (std::size_t r = 1; r < from.size(); ++r) join(tile, source(r), n, how);
  for (auto* y : to) std::memcpy(reinterpret_cast<float*>(y) + at, tile, n * sizeof(float));
}

void combine_bf16(std::span<std::byte* const> from, std::size_t first, std::span<std::byte* const> to, std::size_t at,
                  std::size_t n, reduction how) {
  alignas(64) float tile[tile_elements], next[tile_elements];
  alignas(64) std::uint16_t rounded[tile_elements];
  const auto source = [&](std::size_t r) { return reinterpret_cast<const std::uint16_t*>(from[r]) + first; };
  widen_all(source(0), tile, n);
  for (std::size_t r = 1; r < from.size(); ++r) {
    widen_all(source(r), next, n);
    join(tile, next, n, how);
  }
  round_all(tile, rounded, n);
  for (auto* y : to) std::memcpy(reinterpret_cast<std::uint16_t*>(y) + at, rounded, n * sizeof(std::uint16_t));
}

}  // namespace

void combine(dtype type, std::span<std::byte* const> from, std::size_t first, std::span<std::byte* const> to,
             std::size_t at, std::size_t count, reduction how) {
  for (std::size_t done = 0; done < count; done += tile_elements) {
    const auto n = std::min(tile_elements, count - done);
    type == dtype::f32 ? combine_f32(from, first + done, to, at + done, n, how)
                       : combine_bf16(from, first + done, to, at + done, n, how);
  }
}

}  // namespace troupe::group
