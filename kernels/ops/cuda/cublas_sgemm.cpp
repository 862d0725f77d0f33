#include "kernels/ops/cuda/cublas_sgemm.hpp"

#include <fmt/format.h>

#include <utility>

#include "kernels/ops/cuda/dynamic_library.hpp"

namespace troupe {

namespace {

constexpr std::size_t workspace_bytes = 32U << 20;  // what cuBLAS's documentation advises for Hopper

struct functions {
  decltype(&cublasCreate) create = nullptr;
  decltype(&cublasDestroy) destroy = nullptr;
  decltype(&cublasSetStream) set_stream = nullptr;
  decltype(&cublasSetWorkspace) set_workspace = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  decltype(&cublasSgemm_64) sgemm = nullptr;
};

// cuBLAS's header renames its functions: this names what the library exports.
#define TROUPE_NAME_OF_(name) #name
#define TROUPE_NAME_OF(name) TROUPE_NAME_OF_(name)

result<functions> open_library() {
  const auto name = fmt::format("libcublas.so.{}", CUBLAS_VER_MAJOR);
  TROUPE_TRY(auto opened, dynamic_library::open("cuBLAS", {name.c_str()}));
  functions f;
  opened.find(f.create, TROUPE_NAME_OF(cublasCreate));
  opened.find(f.destroy, TROUPE_NAME_OF(cublasDestroy));
  opened.find(f.set_stream, TROUPE_NAME_OF(cublasSetStream));
  opened.find(f.set_workspace, TROUPE_NAME_OF(cublasSetWorkspace));
  opened.find(f.set_math_mode, TROUPE_NAME_OF(cublasSetMathMode));
  opened.find(f.sgemm, TROUPE_NAME_OF(cublasSgemm_64));
  TROUPE_CHECK(opened.complete());
  return f;
}

const result<functions>& library() {
  static const auto opened = open_library();
  return opened;
}

status from_cublas(cublasStatus_t code, std::string_view doing) {
  if (code == CUBLAS_STATUS_SUCCESS) return {};
  const auto reaction = code == CUBLAS_STATUS_ALLOC_FAILED    ? errc::out_of_memory
                        : code == CUBLAS_STATUS_INVALID_VALUE ? errc::invalid_argument
                                                              : errc::device_lost;
  return error{reaction, std::string(doing), static_cast<int>(code)};
}

}  // namespace

void cublas_sgemm::destroy::operator()(cublasHandle_t handle) const noexcept { library()->destroy(handle); }

void cublas_sgemm::give_back::operator()(void* memory) const noexcept { source->release(memory, workspace_bytes); }

result<cublas_sgemm> cublas_sgemm::make(cudaStream_t stream, std::shared_ptr<memory_source> memory) {
  if (!library()) return library().error();
  const auto& blas = *library();
  TROUPE_TRY(void* space, memory->allocate(workspace_bytes));
  workspace own_space(space, {std::move(memory)});
  cublasHandle_t made = nullptr;
  TROUPE_CHECK(from_cublas(blas.create(&made), "starting cuBLAS"));
  handle own_handle(made);
  TROUPE_CHECK(from_cublas(blas.set_stream(made, stream), "giving cuBLAS its stream"));
  // After the stream: setting that brings the library's own workspace back.
  TROUPE_CHECK(from_cublas(blas.set_workspace(made, space, workspace_bytes), "giving cuBLAS its workspace"));
  TROUPE_CHECK(from_cublas(blas.set_math_mode(made, CUBLAS_DEFAULT_MATH), "setting cuBLAS's precision"));
  return cublas_sgemm(std::move(own_space), std::move(own_handle));
}

// cuBLAS counts by columns: what is C to us is Cᵀ = op(B)ᵀ·op(A)ᵀ to it.
status cublas_sgemm::operator()(const gemm_args& args) const {
  const auto code = library()->sgemm(handle_.get(), args.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                                     args.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, args.n, args.m, args.k, &args.alpha,
                                     args.b, args.ldb, args.a, args.lda, &args.beta, args.c, args.ldc);
  return from_cublas(code, fmt::format("cublasSgemm, m {}, n {}, k {}", args.m, args.n, args.k));
}

}  // namespace troupe
