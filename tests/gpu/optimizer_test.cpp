#include "gpu_bench.hpp"

using namespace troupe;

TEST_CASE("AdamW on the GPU is the CPU's within rounding, step after step", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  adamw_args args{.learning_rate = 0.01F, .weight_decay = 0.1F, .gradient_scale = 0.7F};
  const auto n = bench.between(1, 100'000);
  bench.compare({bench.uniform({n}), bench.uniform({n}), bench.uniform({n}), bench.uniform({n}, 0, 1)}, 1e-6,
                [args](backend& ops, const auto& t) mutable -> status {
                  for (args.step = 1; args.step <= 5; ++args.step)
                    TROUPE_CHECK(ops.adamw(args, t[0], t[1], t[2], t[3]));
                  return {};
                });
}

TEST_CASE("squared_norm is the CPU's to 1e-13 and depends on no address", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  for (const std::int64_t n : {1, 31, 1024, 1025, 3'000'001}) {
    const auto x = bench.uniform({n + 1}, -3, 3);
    const auto there = bench.upload(x), aligned = bench.upload(x.slice(1, n));
    const auto expected = bench.cpu->squared_norm(x.slice(1, n)), got = bench.gpu->squared_norm(aligned);
    REQUIRE(got);
    CHECK(*got == Approx(*expected).epsilon(1e-13));
    CHECK(bench.gpu->squared_norm(there.slice(1, n)).value() == *got);
  }
}
