#include "gpu_bench.hpp"

using namespace troupe;

namespace {

constexpr float epsilon = 1e-5F;

struct norm_case {
  tensor x, dy, gamma, mean, rstd;
  norm_case(gpu_bench& bench, std::int64_t rows, std::int64_t n)
      : x(bench.uniform({rows, n}, -2, 3)),
        dy(bench.uniform({rows, n})),
        gamma(bench.uniform({n})),
        mean(bench.make({rows})),
        rstd(bench.make({rows})) {
    const auto beta = bench.uniform({n}), y = bench.make({rows, n});
    REQUIRE(bench.cpu->layer_norm(x, gamma, beta, epsilon, y, mean, rstd));
  }
};

}  // namespace

TEST_CASE("LayerNorm and its gradients are the CPU's within rounding", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  for (const std::int64_t n : {1, 31, 32, 33, 768, 1021}) {
    const auto rows = bench.between(1, 90);
    CAPTURE(rows, n);
    const norm_case c(bench, rows, n);
    bench.compare(
        {c.x, c.gamma, bench.uniform({n}), bench.make({rows}), bench.make({rows})}, 5e-6,
        [](backend& ops, const auto& t) { return ops.layer_norm(t[0], t[1], t[2], epsilon, t[0], t[3], t[4]); });
    bench.compare({c.dy, c.x, c.gamma, c.mean, c.rstd}, 5e-6, [](backend& ops, const auto& t) {
      return ops.layer_norm_backward_input(t[0], t[1], t[2], t[3], t[4], t[0], tensor());
    });
    bench.compare({c.dy, c.x, c.gamma, c.mean, c.rstd, bench.make({rows, n}), bench.uniform({rows, n})}, 5e-6,
                  [](backend& ops, const auto& t) {
                    return ops.layer_norm_backward_input(t[0], t[1], t[2], t[3], t[4], t[5], t[6]);
                  });
    bench.compare(
        {c.dy, c.x, c.mean, c.rstd, bench.uniform({n}), bench.uniform({n})}, 5e-6,
        [](backend& ops, const auto& t) { return ops.layer_norm_backward_weight(t[0], t[1], t[2], t[3], t[4], t[5]); });
  }
}
