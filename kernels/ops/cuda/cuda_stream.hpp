#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "kernels/ops/cuda/cuda_error.hpp"

namespace troupe {

/// Owns one stream of one device; it does not wait for the legacy default stream.
class cuda_stream {
public:
  /// Errors: `invalid_argument` (no such device), `device_lost`, `out_of_memory`.
  static result<cuda_stream> make(int device_index) {
    TROUPE_CHECK(from_cuda(cudaSetDevice(device_index), "choosing a CUDA device"));
    cudaStream_t made = nullptr;
    TROUPE_CHECK(from_cuda(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "making a CUDA stream"));
    return cuda_stream(device_index, made);
  }

  /// Makes the stream's device the calling thread's: a setting of each thread, and a backend's thread may change.
  status enter() const { return from_cuda(cudaSetDevice(device_index_), "choosing a CUDA device"); }
  cudaStream_t get() const noexcept { return handle_.get(); }  ///< Borrowed, while this lives.
  int device_index() const noexcept { return device_index_; }

private:
  struct destroy {
    int device_index = 0;
    void operator()(cudaStream_t stream) const noexcept {
      cudaSetDevice(device_index);
      cudaStreamDestroy(stream);
    }
  };
  cuda_stream(int device_index, cudaStream_t owned) : device_index_(device_index), handle_(owned, {device_index}) {}

  int device_index_;
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, destroy> handle_;
};

}  // namespace troupe
