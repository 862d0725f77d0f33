#include "kernels/ops/philox.hpp"

#include <Random123/philox.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace troupe::philox {

namespace {

std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

// Fills `x` with what `numbers_of` makes of each block's words, four elements of the whole tensor a block.
template <class NumbersOf>
void fill(std::span<float> x, std::uint64_t seed, std::string_view name, const element_slice& part,
          NumbersOf numbers_of) {
  const auto h = hash(name);
  std::array<float, 4> four{};
  auto at = std::numeric_limits<std::uint64_t>::max();  // the block that `four` holds
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto element = part(static_cast<std::int64_t>(i));
    if (element >= part.end) {
      x[i] = 0;
      continue;
    }
    const auto b = static_cast<std::uint64_t>(element) / 4;
    if (b != at) four = numbers_of(block({low(b), high(b), low(h), high(h)}, {low(seed), high(seed)}));
    at = b;
    x[i] = four[static_cast<std::size_t>(element % 4)];
  }
}

double unit(std::uint32_t w) { return (w + 0.5) * 0x1p-32; }

}  // namespace

words block(const words& counter, const std::array<std::uint32_t, 2>& key) {
  const auto w = r123::Philox4x32_R<10>()({{counter[0], counter[1], counter[2], counter[3]}}, {{key[0], key[1]}});
  return {w[0], w[1], w[2], w[3]};
}

void fill_normal(std::span<float> x, std::uint64_t seed, std::string_view name, float deviation,
                 const element_slice& part) {
  const double scale = deviation;
  fill(x, seed, name, part, [scale](const words& w) {
    std::array<float, 4> z;
    for (std::size_t pair = 0; pair < 4; pair += 2) {
      const double radius = std::sqrt(-2.0 * std::log(unit(w[pair])));
      const double angle = 2.0 * std::numbers::pi * unit(w[pair + 1]);
      z[pair] = static_cast<float>(radius * std::cos(angle) * scale);
      z[pair + 1] = static_cast<float>(radius * std::sin(angle) * scale);
    }
    return z;
  });
}

void fill_uniform(std::span<float> x, std::uint64_t seed, std::string_view name, float bound,
                  const element_slice& part) {
  const double scale = bound;
  fill(x, seed, name, part, [scale](const words& w) {
    std::array<float, 4> u;
    for (std::size_t j = 0; j < 4; ++j) u[j] = static_cast<float>(((w[j] >> 8) * 0x1p-23 - 1.0) * scale);
    return u;
  });
}

}  // namespace troupe::philox
