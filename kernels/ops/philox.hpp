#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/core/element_slice.hpp"

/// Random numbers that are a function of (seed, name, element) alone: no state, no order, no rank.
///
/// For element i of the tensor called `name`:
///   h     = FNV-1a of the name's bytes, 64 bits (offset basis 0xcbf29ce484222325, prime 0x100000001b3)
///   b     = i / 4, the block
///   w     = Philox4x32-10 with counter (b mod 2³², b / 2³², h mod 2³², h / 2³²) and key (seed mod 2³², seed / 2³²)
/// Normal numbers, in f64 until the last step (Box–Muller), w0…w3 making the elements 4b … 4b + 3:
///   u(w)  = (w + 0.5) / 2³²,  r(w) = √(−2·ln u(w)),  a(w) = 2π·u(w)
///   z0    = r(w0)·cos a(w1),  z1 = r(w0)·sin a(w1),  z2 = r(w2)·cos a(w3),  z3 = r(w2)·sin a(w3)
///   value = f32(z · f64(deviation))
/// Uniform numbers, element 4b + j from wj:
///   value = f32((⌊wj / 2⁸⌋ / 2²³ − 1) · f64(bound)), the bracket exact, the product rounded once: never `bound` itself
/// Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3" (Random123).
namespace troupe::philox {

using words = std::array<std::uint32_t, 4>;

/// Philox4x32 with ten rounds.
words block(const words& counter, const std::array<std::uint32_t, 2>& key);

/// The 64-bit FNV-1a hash of a name.
constexpr std::uint64_t hash(std::string_view name) noexcept {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return h;
}

/// Fills host memory with those elements of the tensor `name` that `part` names, for any backend.
void fill_normal(std::span<float> x, std::uint64_t seed, std::string_view name, float deviation,
                 const element_slice& part = {});
void fill_uniform(std::span<float> x, std::uint64_t seed, std::string_view name, float bound,
                  const element_slice& part = {});

}  // namespace troupe::philox
