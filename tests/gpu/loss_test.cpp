#include "gpu_bench.hpp"

using namespace troupe;

TEST_CASE("cross-entropy and its gradient are the CPU's within rounding", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  for (const std::int32_t classes : {1, 2, 255, 256, 1000, 50257}) {
    const auto rows = bench.between(1, 40);
    CAPTURE(rows, classes);
    bench.compare({bench.uniform({rows, classes}, -8, 8), bench.indices({rows}, classes), bench.make({1})}, 5e-6,
                  [](backend& ops, const auto& t) { return ops.cross_entropy(t[0], t[1], 0.125F, t[2]); });
  }
}

TEST_CASE("the squared error and its gradient are the CPU's within rounding", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  for (const std::int64_t n : {1, 255, 1025, 2'000'003})
    bench.compare({bench.uniform({n}), bench.uniform({n}), bench.make({1})}, 1e-6,
                  [](backend& ops, const auto& t) { return ops.squared_error(t[0], t[1], 0.5F, t[2]); });
}
