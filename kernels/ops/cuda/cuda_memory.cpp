#include "kernels/ops/cuda/cuda_memory.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "kernels/ops/cuda/cuda_error.hpp"

namespace troupe {

namespace {

class device_source final : public memory_source {
public:
  explicit device_source(int index) : index_(index) {}
  device where() const noexcept override { return {device_kind::cuda, index_}; }

  result<void*> allocate(std::size_t bytes) override {
    TROUPE_CHECK(from_cuda(cudaSetDevice(index_), "choosing a CUDA device"));
    void* memory = nullptr;
    const auto code = cudaMalloc(&memory, bytes);
    if (code == cudaSuccess) return memory;
    std::size_t free = 0, total = 0;
    if (code == cudaErrorMemoryAllocation) cudaMemGetInfo(&free, &total);
    return cuda_error(code, fmt::format("allocating {} bytes on {}, where {} of {} are free", bytes, to_string(where()),
                                        free, total));
  }
  void release(void* memory, std::size_t) noexcept override {
    cudaSetDevice(index_);
    cudaFree(memory);
  }

private:
  int index_;
};

class pinned_source final : public memory_source {
public:
  explicit pinned_source(int index) : index_(index) {}
  device where() const noexcept override { return {}; }

  result<void*> allocate(std::size_t bytes) override {
    TROUPE_CHECK(from_cuda(cudaSetDevice(index_), "choosing a CUDA device"));
    void* memory = nullptr;
    TROUPE_CHECK(from_cuda(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault),
                           fmt::format("allocating {} bytes of pinned host memory", bytes)));
    return memory;
  }
  void release(void* memory, std::size_t) noexcept override { cudaFreeHost(memory); }

private:
  int index_;
};

}  // namespace

std::shared_ptr<memory_source> cuda_memory(int device_index) { return std::make_shared<device_source>(device_index); }

std::shared_ptr<memory_source> pinned_memory(int device_index) { return std::make_shared<pinned_source>(device_index); }

}  // namespace troupe
