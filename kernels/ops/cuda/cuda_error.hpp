#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "kernels/core/result.hpp"

namespace troupe {

/// CUDA's answer as ours, its own text and number kept. Whatever is neither a lack of memory nor a wrong argument is
/// `device_lost`: such errors stick to the process, so the only reaction is a new one.
error cuda_error(cudaError_t code, std::string_view doing);

inline status from_cuda(cudaError_t code, std::string_view doing) {
  if (code == cudaSuccess) return {};
  return cuda_error(code, doing);
}

}  // namespace troupe
