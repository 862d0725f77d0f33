#include <dnnl.h>
#include <fmt/format.h>
#include <omp.h>

#include <cstdlib>

#include "kernels/ops/checks.hpp"
#include "kernels/ops/cpu/cpu_backend.hpp"
#include "kernels/ops/cpu/sgemm.hpp"

namespace troupe {

namespace {

// oneDNN takes as many threads as OpenMP gives the calling thread, which is a setting of each thread and by default the
// number of cores: every shard would then use the whole machine.
void use_one_thread_unless_told_otherwise() {
  static const bool told = std::getenv("OMP_NUM_THREADS") != nullptr;
  thread_local bool done = false;
  if (!told && !done) omp_set_num_threads(1);
  done = true;
}

// A product over no terms, which oneDNN leaves out: C = beta·C.
void scale(const gemm_args& args) {
  for (std::int64_t i = 0; i < args.m; ++i)
    for (std::int64_t j = 0; j < args.n; ++j) {
      float& c = args.c[i * args.ldc + j];
      c = args.beta == 0 ? 0 : args.beta * c;
    }
}

}  // namespace

status sgemm(const gemm_args& args) {
  if (args.m == 0 || args.n == 0) return {};
  if (args.k == 0) return scale(args), status();
  use_one_thread_unless_told_otherwise();
  const auto code = dnnl_sgemm(args.transpose_a ? 'T' : 'N', args.transpose_b ? 'T' : 'N', args.m, args.n, args.k,
                               args.alpha, args.a, args.lda, args.b, args.ldb, args.beta, args.c, args.ldc);
  if (code == dnnl_success) return {};
  return error{code == dnnl_out_of_memory ? errc::out_of_memory : errc::invalid_argument,
               fmt::format("dnnl_sgemm, m {}, n {}, k {}", args.m, args.n, args.k), static_cast<int>(code)};
}

status cpu_backend::gemm(const gemm_args& args) {
  TROUPE_CHECK(checks::gemm(args));
  return sgemm(args);
}

}  // namespace troupe
