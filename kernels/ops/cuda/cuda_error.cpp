#include "kernels/ops/cuda/cuda_error.hpp"

#include <fmt/format.h>

namespace troupe {

namespace {

errc reaction_to(cudaError_t code) {
  switch (code) {
    case cudaErrorMemoryAllocation:
      return errc::out_of_memory;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidDevice:
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return errc::invalid_argument;
    default:
      return errc::device_lost;
  }
}

}  // namespace

error cuda_error(cudaError_t code, std::string_view doing) {
  cudaGetLastError();  // else the next launch would report an error that does not stick once more, as its own
  return {reaction_to(code), fmt::format("{}: {}", doing, cudaGetErrorString(code)), static_cast<int>(code)};
}

}  // namespace troupe
