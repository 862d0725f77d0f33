#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/ops/cuda/cuda_stream.hpp"

namespace troupe {

inline constexpr unsigned warp_size = 32;
inline constexpr unsigned threads_per_block = 256;

/// Enqueues one kernel; an empty grid is nothing to do. A refusal names the operation; a fault inside the kernel
/// surfaces at the next synchronise.
template <class... Parameters, class... Arguments>
status launch(const char* op, const cuda_stream& stream, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
              std::size_t shared_bytes, Arguments... arguments) {
  if (blocks.x == 0 || blocks.y == 0) return {};
  TROUPE_CHECK(stream.enter());
  kernel<<<blocks, threads, shared_bytes, stream.get()>>>(static_cast<Parameters>(arguments)...);
  return from_cuda(cudaGetLastError(), op);
}

inline unsigned blocks_for(std::int64_t items, std::int64_t items_per_block) {
  return static_cast<unsigned>((items + items_per_block - 1) / items_per_block);
}

template <class Body>
__global__ void for_each_kernel(std::int64_t n, Body body) {
  const auto step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) body(i);
}

/// body(i) for i in [0, n), in any order; neighbours in one warp, so that their accesses coalesce.
template <class Body>
status for_each(const char* op, const cuda_stream& stream, std::int64_t n, Body body) {
  constexpr std::int64_t most_blocks = 1 << 16;
  const auto blocks = std::min<std::int64_t>(most_blocks, blocks_for(n, threads_per_block));
  return launch(op, stream, for_each_kernel<Body>, static_cast<unsigned>(blocks), threads_per_block, 0, n, body);
}

}  // namespace troupe
