#include "kernels/ops/cuda/cuda_backend.hpp"
#include "kernels/ops/cuda/reduce.cuh"

namespace troupe {

namespace {

struct smallest_of {
  __device__ long long operator()(long long a, long long b) const { return a < b ? a : b; }
};

// One block, so that the first bad place is found without atomics.
__global__ void find_outside(const std::int32_t* indices, long long count, long long limit, index_fault* fault) {
  long long first = count;
  for (long long i = threadIdx.x; i < count && first == count; i += threads_per_block)
    if (indices[i] < 0 || indices[i] >= limit) first = i;
  first = reduce_block(first, smallest_of());
  if (threadIdx.x > 0 || first == count || fault->found) return;
  *fault = {1, indices[first], first, limit};
}

}  // namespace

status cuda_backend::expect_below(checked_indices operand, const tensor& indices, std::int64_t limit) {
  return launch("checking indices", stream_, find_outside, 1, threads_per_block, 0, indices.data<std::int32_t>(),
                indices.elements(), limit, &report_->faults[static_cast<std::size_t>(operand)]);
}

}  // namespace troupe
