#include "gpu_bench.hpp"

using namespace troupe;

TEST_CASE("sums of two operands and first values have the CPU's bits", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  for (int i = 0; i < 5; ++i) {
    const auto rows = bench.between(1, 300), n = bench.between(1, 700);
    bench.compare({bench.uniform({rows, n}), bench.uniform({n})}, 0,
                  [](backend& ops, const auto& t) { return ops.add_bias(t[0], t[1]); });
    bench.compare({bench.uniform({rows, n}), bench.uniform({rows, n}), bench.make({rows, n})}, 0,
                  [](backend& ops, const auto& t) { return ops.add(t[0], t[1], t[2]); });
    bench.compare({bench.make({rows, n})}, 0, [](backend& ops, const auto& t) { return ops.fill(t[0], 0.3F); });
    bench.compare({bench.make({rows, n})}, 0,
                  [](backend& ops, const auto& t) { return ops.fill_normal(t[0], 5, "h.0.weight", 0.02F); });
    bench.compare({bench.make({rows, n})}, 0,
                  [](backend& ops, const auto& t) { return ops.fill_uniform(t[0], 5, "h.0.weight", 0.02F); });
  }
}

TEST_CASE("an addition may overwrite an operand on the GPU", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  bench.compare({bench.uniform({1000}), bench.uniform({1000})}, 0,
                [](backend& ops, const auto& t) { return ops.add(t[0], t[1], t[0]); });
}

TEST_CASE("GELU and its gradient are the CPU's to a few units in the last place", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  const auto x = bench.uniform({33, 1025}, -12, 12);
  bench.compare({x, bench.make(x.dims())}, 1e-6, [](backend& ops, const auto& t) { return ops.gelu(t[0], t[1]); });
  bench.compare({x}, 1e-6, [](backend& ops, const auto& t) { return ops.gelu(t[0], t[0]); });
  bench.compare({x, bench.uniform(x.dims())}, 1e-6,
                [](backend& ops, const auto& t) { return ops.gelu_backward(t[0], t[1], t[1]); });
}

TEST_CASE("the bias gradient is the CPU's within rounding, and adds to what was there", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  for (const std::int64_t rows : {1, 31, 33, 2000}) {
    const auto n = bench.between(1, 300);
    CAPTURE(rows, n);
    bench.compare({bench.uniform({rows, n}), bench.uniform({n})}, 5e-6,
                  [](backend& ops, const auto& t) { return ops.bias_backward(t[0], t[1]); });
  }
}
