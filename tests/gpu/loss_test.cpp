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

TEST_CASE("each part of a cross-entropy over tensor shards is the CPU's within rounding", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  for (const std::int32_t columns : {1, 255, 1000}) {
    const auto rows = bench.between(1, 40);
    const vocabulary_slice slice{2L * columns, columns - columns / 3, 4L * columns};  // the last columns are padding
    CAPTURE(rows, columns);
    const auto logits = bench.uniform({rows, columns}, -8, 8), targets = bench.indices({rows}, 4 * columns);
    bench.compare({logits, bench.make({rows})}, 0,
                  [&](backend& ops, const auto& t) { return ops.cross_entropy_peaks(t[0], slice, t[1]); });
    bench.compare({logits, targets, bench.uniform({rows}, 7, 8), bench.make({2, rows})}, 5e-6,
                  [&](backend& ops, const auto& t) { return ops.cross_entropy_sums(t[0], slice, t[1], t[2], t[3]); });
    bench.compare(
        {bench.uniform({rows, columns}, 0, 1), targets, bench.uniform({2, rows}, 1, 9), bench.make({1})}, 5e-6,
        [&](backend& ops, const auto& t) { return ops.cross_entropy_gradient(t[0], slice, t[1], t[2], 0.125F, t[3]); });
  }
}

TEST_CASE("the squared error and its gradient are the CPU's within rounding", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  for (const std::int64_t n : {1, 255, 1025, 2'000'003})
    bench.compare({bench.uniform({n}), bench.uniform({n}), bench.make({1})}, 1e-6,
                  [](backend& ops, const auto& t) { return ops.squared_error(t[0], t[1], 0.5F, t[2]); });
}
