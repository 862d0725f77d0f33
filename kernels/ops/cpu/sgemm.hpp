#pragma once

#include "kernels/ops/backend.hpp"

namespace troupe {

/// `backend::gemm` without its checks, on the calling thread. The first call on a thread sets its OpenMP to one compute
/// thread, unless OMP_NUM_THREADS says otherwise.
status sgemm(const gemm_args& args);

}  // namespace troupe
