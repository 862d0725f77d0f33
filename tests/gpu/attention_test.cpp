#include "gpu_bench.hpp"

using namespace troupe;

namespace {

void compare_attention(gpu_bench& bench, std::int64_t batch, std::int64_t sequence, std::int64_t heads,
                       std::int64_t width) {
  CAPTURE(batch, sequence, heads, width);
  const auto hidden = heads * width;
  const auto qkv = bench.uniform({batch, sequence, 3 * hidden}, -2, 2), dout = bench.uniform({batch, sequence, hidden});
  const auto out = bench.make({batch, sequence, hidden}), log_sum = bench.make({batch, heads, sequence});
  bench.compare({qkv, out, log_sum}, 5e-6,
                [heads](backend& ops, const auto& t) { return ops.attention(t[0], heads, t[1], t[2]); });
  REQUIRE(bench.cpu->attention(qkv, heads, out, log_sum));
  bench.compare({dout, qkv, out, log_sum, bench.make(qkv.dims())}, 2e-5, [heads](backend& ops, const auto& t) {
    return ops.attention_backward(t[0], t[1], t[2], t[3], heads, t[4]);
  });
}

}  // namespace

TEST_CASE("attention and its gradient are the CPU's within rounding at every edge of a tile", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  for (const std::int64_t sequence : {1, 2, 63, 64, 65, 130}) compare_attention(bench, 2, sequence, 3, 12);
}

TEST_CASE("attention takes heads of any width up to 256", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  for (const std::int64_t width : {1, 31, 32, 33, 64, 80, 128, 129, 256}) compare_attention(bench, 1, 70, 2, width);
}

TEST_CASE("attention refuses wider heads and names the limit", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  const auto qkv = bench.upload(bench.make({1, 2, 3 * 257})), out = bench.upload(bench.make({1, 2, 257}));
  const auto done = bench.gpu->attention(qkv, 1, out, bench.upload(bench.make({1, 1, 2})));
  REQUIRE_FALSE(done);
  CHECK(done.error().where == "attention: heads are 257 elements wide, on CUDA at most 256");
}
