#include "kernels/ops/checks.hpp"
#include "kernels/ops/cuda/cuda_backend.hpp"
#include "kernels/ops/cuda/launch.cuh"

namespace troupe {

status cuda_backend::gemm(const gemm_args& args) {
  TROUPE_CHECK(checks::gemm(args));
  if (args.m == 0 || args.n == 0) return {};
  if (args.k > 0) {
    TROUPE_CHECK(stream_.enter());
    return sgemm_(args);
  }
  // A product over no terms: C = beta·C.
  return for_each("gemm", stream_, args.m * args.n,
                  [c = args.c, n = args.n, ldc = args.ldc, beta = args.beta] __device__(std::int64_t i) {
                    float& element = c[i / n * ldc + i % n];
                    element = beta == 0 ? 0 : beta * element;
                  });
}

}  // namespace troupe
