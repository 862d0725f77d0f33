#pragma once

#include <cublas_v2.h>

#include <memory>

#include "kernels/ops/backend.hpp"

namespace troupe {

/// cuBLAS's single-precision product on one stream. FP32 throughout: TF32 and emulation stay off.
///
/// Bits repeat: one handle a stream, a workspace of its own (so no other user of cuBLAS changes which algorithm fits),
/// and atomics off. Source: cuBLAS's documentation, "Results reproducibility".
///
/// The library is opened when the first one is made, not linked: merely loading it costs a process 0.1 s and 200 MB,
/// which a run on the CPU should not pay.
class cublas_sgemm {
public:
  /// `memory` gives the workspace, on `stream`'s device, which must be the calling thread's.
  /// Errors: `invalid_argument` (the library cannot be loaded), `out_of_memory`, `device_lost`.
  static result<cublas_sgemm> make(cudaStream_t stream, std::shared_ptr<memory_source> memory);

  /// Enqueues `args`' product; m, n and k are at least 1.
  status operator()(const gemm_args& args) const;

private:
  struct destroy {
    void operator()(cublasHandle_t handle) const noexcept;
  };
  struct give_back {
    std::shared_ptr<memory_source> source;
    void operator()(void* memory) const noexcept;
  };
  using handle = std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, destroy>;
  using workspace = std::unique_ptr<void, give_back>;
  cublas_sgemm(workspace space, handle owned) : workspace_(std::move(space)), handle_(std::move(owned)) {}

  workspace workspace_;  // outlives the handle
  handle handle_;
};

}  // namespace troupe
