#include <omp.h>

#include <limits>
#include <thread>

#include "op_bench.hpp"

using namespace troupe;

TEST_CASE("gemm equals the f64 product for every transposition and odd size, and leaves the gaps of a stride alone",
          "[ops]") {
  op_bench bench;
  const bool ta = GENERATE(false, true), tb = GENERATE(false, true);
  const auto [m, n, k] = GENERATE(table<std::int64_t, std::int64_t, std::int64_t>(
      {{1, 1, 1}, {3, 5, 7}, {17, 1, 33}, {1, 19, 65}, {64, 48, 32}, {129, 67, 255}}));
  const float beta = GENERATE(0.0F, 1.0F, -0.5F);
  CAPTURE(ta, tb, m, n, k, beta);
  constexpr std::int64_t gap = 3;
  const auto a = bench.uniform({ta ? k : m, ta ? m : k}), b = bench.uniform({tb ? n : k, tb ? k : n});
  auto c = bench.filled({m, n + gap}, 0.75F);
  if (beta == 0)  // must not be read
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) c.data<float>()[i * (n + gap) + j] = std::numeric_limits<float>::quiet_NaN();

  REQUIRE(bench.ops->gemm({ta, tb, m, n, k, 0.5F, a.data<float>(), a.dims()[1], b.data<float>(), b.dims()[1], beta,
                           c.data<float>(), n + gap}));

  const auto um = static_cast<std::size_t>(m), un = static_cast<std::size_t>(n), uk = static_cast<std::size_t>(k);
  const auto wide_a = ta ? reference::transposed(widen(a), uk, um) : widen(a);
  const auto wide_b = tb ? reference::transposed(widen(b), un, uk) : widen(b);
  const auto product = reference::product(wide_a, wide_b, um, un, uk);
  reference::array expected(um * (un + gap), 0.75);
  for (std::size_t i = 0; i < um; ++i)
    for (std::size_t j = 0; j < un; ++j)
      expected[i * (un + gap) + j] = 0.5 * product[i * un + j] + static_cast<double>(beta) * 0.75;
  CHECK(deviation(c, expected) < 1e-6 * std::sqrt(static_cast<double>(k)) + 1e-6);
}

TEST_CASE("gemm over no terms scales C, and over no rows does nothing", "[ops]") {
  op_bench bench;
  auto c = bench.filled({2, 2}, 3.0F);
  const float unused = 0;
  REQUIRE(bench.ops->gemm(
      {.m = 2, .n = 2, .a = &unused, .lda = 1, .b = &unused, .ldb = 2, .beta = 0.5F, .c = c.data<float>(), .ldc = 2}));
  CHECK(widen(c) == reference::array{1.5, 1.5, 1.5, 1.5});
  CHECK(bench.ops->gemm({.m = 0, .n = 2, .k = 1, .lda = 1, .b = &unused, .ldb = 2, .ldc = 2}));
}

TEST_CASE("gemm names the operand that is null or whose stride is too short", "[ops]") {
  op_bench bench;
  float x[4] = {};
  const gemm_args good{.m = 2, .n = 2, .k = 2, .a = x, .lda = 2, .b = x, .ldb = 2, .c = x, .ldc = 2};
  auto bad = good;
  bad.b = nullptr;
  CHECK(text_of(bench.ops->gemm(bad)) == "gemm: b is null");
  bad = good;
  bad.ldc = 1;
  CHECK(text_of(bench.ops->gemm(bad)) == "gemm: the row stride of c is 1, expected at least its 2 columns");
  bad = good;
  bad.k = -1;
  CHECK(text_of(bench.ops->gemm(bad)) == "gemm: m, n, k are 2, 2, -1, expected none below 0");
}

TEST_CASE("each thread that calls gemm computes with one thread, unless OMP_NUM_THREADS says otherwise", "[ops]") {
  if (std::getenv("OMP_NUM_THREADS")) return;
  int threads = 0;
  std::thread other([&] {
    op_bench bench;
    const float x = 2;
    float y = 0;
    const bool done(bench.ops->gemm({.m = 1, .n = 1, .k = 1, .a = &x, .lda = 1, .b = &x, .ldb = 1, .c = &y, .ldc = 1}));
    threads = done && y == 4 ? omp_get_max_threads() : 0;
  });
  other.join();
  CHECK(threads == 1);
}
