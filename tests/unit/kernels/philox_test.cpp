#include "kernels/ops/philox.hpp"

#include <cmath>

#include "op_bench.hpp"

using namespace troupe;

TEST_CASE("Philox4x32-10 gives Random123's known answers", "[philox]") {
  using philox::words;
  constexpr std::uint32_t ones = 0xffffffff;
  CHECK(philox::block({0, 0, 0, 0}, {0, 0}) == words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox::block({ones, ones, ones, ones}, {ones, ones}) == words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox::block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a name's hash is FNV-1a's", "[philox]") {
  CHECK(philox::hash("") == 0xcbf29ce484222325);
  CHECK(philox::hash("a") == 0xaf63dc4c8601ec8c);
  CHECK(philox::hash("foobar") == 0x85944171f73967e8);
}

TEST_CASE("an element is a function of seed, name and place, whatever the tensor's size", "[philox]") {
  op_bench bench;
  const auto large = bench.make({1001}), small = bench.make({7}), other = bench.make({1001});
  const auto fill = GENERATE(&backend::fill_normal, &backend::fill_uniform);
  REQUIRE((*bench.ops.*fill)(large, 5, "h.0.mlp", 0.5F, {}));
  REQUIRE((*bench.ops.*fill)(small, 5, "h.0.mlp", 0.5F, {}));
  CHECK(bits(small) == bits(large.slice(0, 7)));
  REQUIRE((*bench.ops.*fill)(other, 5, "h.0.mlp", 0.5F, {}));
  CHECK(bits(other) == bits(large));
  const auto equal_to_large = [&] {
    std::size_t equal = 0;
    for (std::size_t i = 0; i < 1001; ++i) equal += other.values<float>()[i] == large.values<float>()[i];
    return equal;
  };
  REQUIRE((*bench.ops.*fill)(other, 6, "h.0.mlp", 0.5F, {}));
  CHECK(equal_to_large() == 0);
  REQUIRE((*bench.ops.*fill)(other, 5, "h.1.mlp", 0.5F, {}));
  CHECK(equal_to_large() == 0);
  REQUIRE((*bench.ops.*fill)(other, 5 + (1ULL << 32), "h.0.mlp", 0.5F, {}));
  CHECK(equal_to_large() == 0);
}

TEST_CASE("a part of a tensor has the elements that the whole has there, and zeros beyond its end", "[philox]") {
  op_bench bench;
  const auto fill = GENERATE(&backend::fill_normal, &backend::fill_uniform);
  const auto whole = bench.make({6, 10}), columns = bench.make({6, 5}), rows = bench.make({4, 10});
  REQUIRE((*bench.ops.*fill)(whole, 3, "w", 1.0F, {}));
  REQUIRE((*bench.ops.*fill)(columns, 3, "w", 1.0F, {5, 5, 10, 60}));
  REQUIRE((*bench.ops.*fill)(rows, 3, "w", 1.0F, {40, 1000, 0, 60}));
  for (int r = 0; r < 6; ++r)
    for (int c = 0; c < 5; ++c) CHECK(columns.values<float>()[5 * r + c] == whole.values<float>()[10 * r + 5 + c]);
  for (int i = 0; i < 40; ++i) CHECK(rows.values<float>()[i] == (i < 20 ? whole.values<float>()[40 + i] : 0.0F));
}

TEST_CASE("normal numbers follow the documented formula", "[philox]") {
  op_bench bench;
  const auto x = bench.make({10});
  REQUIRE(bench.ops->fill_normal(x, 0x123456789abcdef0, "wte.weight", 0.02F));
  const auto h = philox::hash("wte.weight");
  for (std::uint32_t i = 0; i < 10; ++i) {
    const auto w = philox::block({i / 4, 0, static_cast<std::uint32_t>(h), static_cast<std::uint32_t>(h >> 32)},
                                 {0x9abcdef0, 0x12345678});
    const auto pair = i % 4 / 2 * 2;
    const double radius = std::sqrt(-2 * std::log((w[pair] + 0.5) / 4294967296.0));
    const double angle = 2 * std::numbers::pi * (w[pair + 1] + 0.5) / 4294967296.0;
    const double z = radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
    CHECK(x.values<float>()[i] == Approx(z * static_cast<double>(0.02F)).epsilon(1e-7));
  }
}

TEST_CASE("a million normal numbers have mean, variance, skew and tails of the normal distribution", "[philox]") {
  op_bench bench;
  const auto x = bench.make({1 << 20});
  REQUIRE(bench.ops->fill_normal(x, 1, "moments", 2.0F));
  const double n = 1 << 20;
  double sum = 0, squares = 0, cubes = 0, beyond = 0;
  for (double v : widen(x)) {
    sum += v / 2;
    squares += v * v / 4;
    cubes += v * v * v / 8;
    beyond += std::abs(v) > 2 * 1.959964;
  }
  CHECK(std::abs(sum / n) < 4 / std::sqrt(n));
  CHECK(std::abs(squares / n - 1) < 4 * std::sqrt(2 / n));
  CHECK(std::abs(cubes / n) < 4 * std::sqrt(15 / n));
  CHECK(beyond / n == Approx(0.05).margin(4 * std::sqrt(0.05 * 0.95 / n)));
}

TEST_CASE("uniform numbers fill [-bound, bound) and never reach bound", "[philox]") {
  op_bench bench;
  const auto x = bench.make({1 << 20});
  REQUIRE(bench.ops->fill_uniform(x, 1, "range", 0.3F));
  double sum = 0, lowest = 1, highest = -1;
  for (double v : widen(x)) {
    sum += v;
    lowest = std::min(lowest, v);
    highest = std::max(highest, v);
  }
  const double bound = 0.3F, n = 1 << 20;
  CHECK(lowest >= -bound);
  CHECK(lowest < -bound * 0.9999);
  CHECK(highest < bound);
  CHECK(highest > bound * 0.9999);
  CHECK(std::abs(sum / n) < 4 * bound / std::sqrt(3 * n));
}

TEST_CASE("make_backend gives the CPU's, and names the CUDA device that it cannot give", "[ops]") {
  const auto cpu = make_backend({});
  REQUIRE(cpu);
  CHECK((*cpu)->where() == device{});
  CHECK((*cpu)->memory()->where() == device{});
  CHECK((*cpu)->synchronise());
  const auto absent = make_backend({device_kind::cuda, 99});
  CHECK(text_of(absent).find("cuda:99") != std::string::npos);
}
