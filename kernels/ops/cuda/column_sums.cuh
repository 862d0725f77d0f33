#pragma once

#include "kernels/ops/cuda/launch.cuh"

namespace troupe {

template <class Term>
__global__ void add_column_sums_kernel(float* sums, std::int64_t rows, std::int64_t n, Term term) {
  __shared__ float parts[warp_size][warp_size];
  const auto column = static_cast<std::int64_t>(blockIdx.x) * warp_size + threadIdx.x;
  float own = 0;
  if (column < n)
    for (std::int64_t row = threadIdx.y; row < rows; row += warp_size) own += term(row, column);
  parts[threadIdx.y][threadIdx.x] = own;
  __syncthreads();
  if (threadIdx.y > 0 || column >= n) return;
  float total = 0;
  for (unsigned part = 0; part < warp_size; ++part) total += parts[part][threadIdx.x];
  sums[column] += total;
}

/// sums[j] += Σ term(row, j): row r joins partial sum r mod 32, in ascending order; then the partial sums in ascending
/// order, and only their total joins what was there.
template <class Term>
status add_column_sums(const char* op, const cuda_stream& stream, float* sums, std::int64_t rows, std::int64_t n,
                       Term term) {
  return launch(op, stream, add_column_sums_kernel<Term>, blocks_for(n, warp_size), {warp_size, warp_size, 1}, 0, sums,
                rows, n, term);
}

}  // namespace troupe
