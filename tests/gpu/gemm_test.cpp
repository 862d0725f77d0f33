#include "gpu_bench.hpp"

using namespace troupe;

namespace {

void compare_product(gpu_bench& bench, gemm_args args) {
  CAPTURE(args.transpose_a, args.transpose_b, args.m, args.n, args.k, args.alpha, args.beta);
  args.lda = (args.transpose_a ? args.m : args.k) + 3;
  args.ldb = (args.transpose_b ? args.k : args.n) + 1;
  args.ldc = args.n + 2;
  const gpu_bench::tensors operands{bench.uniform({args.transpose_a ? args.k : args.m, args.lda}),
                                    bench.uniform({args.transpose_b ? args.n : args.k, args.ldb}),
                                    bench.uniform({args.m, args.ldc})};
  const double tolerance = 1e-6 * std::sqrt(static_cast<double>(args.k) + 1);  // rounding of sums in another order
  bench.compare(operands, tolerance, [args](backend& ops, const gpu_bench::tensors& t) mutable {
    args.a = t[0].data<float>();
    args.b = t[1].data<float>();
    args.c = t[2].data<float>();
    return ops.gemm(args);
  });
}

}  // namespace

TEST_CASE("a product on the GPU is the CPU's within rounding, whatever is transposed", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (int i = 0; i < 6; ++i)
        compare_product(bench, {.transpose_a = transpose_a,
                                .transpose_b = transpose_b,
                                .m = bench.between(1, 150),
                                .n = bench.between(1, 150),
                                .k = bench.between(1, 300),
                                .alpha = i % 2 == 0 ? 1.0F : 0.7F,
                                .beta = static_cast<float>(i % 3) * 0.5F});
  compare_product(bench, {.m = 512, .n = 768, .k = 1024});
}

TEST_CASE("a product over no terms on the GPU scales C", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  for (const float beta : {0.0F, 1.0F, 0.25F}) compare_product(bench, {.m = 7, .n = 5, .k = 0, .beta = beta});
}
