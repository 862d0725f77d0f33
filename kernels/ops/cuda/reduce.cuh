#pragma once

#include "kernels/ops/cuda/launch.cuh"

/// Reductions whose order follows from the thread's place alone; every thread that takes part gets the result.
namespace troupe {

struct sum_of {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

struct largest_of {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// Over `Lanes` neighbouring lanes, a power of two: lane l joins lane l + Lanes/2, then l + Lanes/4 …, as the CPU's
/// partial sums do (kernels/ops/cpu/vectorised.hpp). Both lanes of a pair compute the same, since a + b = b + a.
template <unsigned Lanes = warp_size, class T, class Join>
__device__ T reduce_lanes(T value, Join join) {
#pragma unroll
  for (unsigned half = Lanes / 2; half > 0; half /= 2) value = join(value, __shfl_xor_sync(0xffffffffU, value, half));
  return value;
}

/// Over a block of `threads_per_block` threads, warp by warp, then over the warps. Also a barrier.
template <class T, class Join>
__device__ T reduce_block(T value, Join join) {
  constexpr unsigned warps = threads_per_block / warp_size;
  __shared__ T of_warp[warps];
  value = reduce_lanes(value, join);
  __syncthreads();  // an earlier call's results have been read
  if (threadIdx.x % warp_size == 0) of_warp[threadIdx.x / warp_size] = value;
  __syncthreads();
  return reduce_lanes<warps>(of_warp[threadIdx.x % warps], join);
}

/// One block's share of Σ term(i), in f64: parts[block].
template <class Term>
__global__ void sum_parts(std::int64_t n, Term term, double* parts) {
  double own = 0;
  const auto step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) own += term(i);
  const double part = reduce_block(own, sum_of());
  if (threadIdx.x == 0) parts[blockIdx.x] = part;
}

/// store(Σ parts[i]) by one block.
template <class Store>
__global__ void add_parts(const double* parts, std::int64_t count, Store store) {
  double own = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) own += parts[i];
  const double sum = reduce_block(own, sum_of());
  if (threadIdx.x == 0) store(sum);
}

inline constexpr std::int64_t most_parts = 1024;  // room that `sum_all` needs at `parts`

/// store(Σ term(i)) for i in [0, n), in f64 and an order that depends on n only, not on the device.
template <class Term, class Store>
status sum_all(const char* op, const cuda_stream& stream, std::int64_t n, double* parts, Term term, Store store) {
  const auto blocks = std::min<std::int64_t>(most_parts, blocks_for(n, 4 * threads_per_block));
  TROUPE_CHECK(
      launch(op, stream, sum_parts<Term>, static_cast<unsigned>(blocks), threads_per_block, 0, n, term, parts));
  return launch(op, stream, add_parts<Store>, 1, threads_per_block, 0, parts, blocks, store);
}

}  // namespace troupe
