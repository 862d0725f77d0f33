#include "kernels/ops/checks.hpp"
#include "kernels/ops/cuda/cuda_backend.hpp"
#include "kernels/ops/cuda/reduce.cuh"

namespace troupe {

namespace {

// One block a row, in all three.
__global__ void find_peaks(const float* logits, std::int64_t stride, std::int64_t count, float* peaks) {
  logits += blockIdx.x * stride;
  float top = -INFINITY;
  for (std::int64_t j = threadIdx.x; j < count; j += threads_per_block) top = fmaxf(top, logits[j]);
  top = reduce_block(top, largest_of());
  if (threadIdx.x == 0) peaks[blockIdx.x] = top;
}

__global__ void exponentiate_rows(float* logits, std::int64_t rows, std::int64_t stride, vocabulary_slice slice,
                                  const std::int32_t* targets, const float* peaks, float* sums) {
  const std::int64_t row = blockIdx.x;
  logits += row * stride;
  const auto target = targets[row] - slice.first;
  const float peak = peaks[row];
  if (threadIdx.x == 0) sums[rows + row] = target >= 0 && target < slice.count ? logits[target] - peak : 0.0F;
  __syncthreads();  // before it is overwritten
  float total = 0;
  for (std::int64_t j = threadIdx.x; j < stride; j += threads_per_block) {
    const float power = j < slice.count ? expf(logits[j] - peak) : 0.0F;
    logits[j] = power;
    total += power;
  }
  total = reduce_block(total, sum_of());
  if (threadIdx.x == 0) sums[row] = total;
}

__global__ void finish_rows(float* logits, std::int64_t rows, std::int64_t stride, vocabulary_slice slice,
                            const std::int32_t* targets, const float* sums, float scale, double* losses) {
  const std::int64_t row = blockIdx.x;
  logits += row * stride;
  const auto target = targets[row] - slice.first;
  const float to_gradient = scale / sums[row];
  for (std::int64_t j = threadIdx.x; j < slice.count; j += threads_per_block)
    logits[j] = logits[j] * to_gradient - (j == target ? scale : 0.0F);
  if (threadIdx.x == 0) losses[row] = log(static_cast<double>(sums[row])) - static_cast<double>(sums[rows + row]);
}

}  // namespace

status cuda_backend::cross_entropy_peaks(const tensor& logits, const vocabulary_slice& slice, const tensor& peaks) {
  TROUPE_CHECK(checks::cross_entropy_peaks(logits, slice, peaks));
  const auto rows = logits.dims().rows();
  return launch("cross_entropy_peaks", stream_, find_peaks, blocks_for(rows, 1), threads_per_block, 0,
                logits.data<float>(), logits.dims().back(), slice.count, peaks.data<float>());
}

status cuda_backend::cross_entropy_sums(const tensor& logits, const vocabulary_slice& slice, const tensor& targets,
                                        const tensor& peaks, const tensor& sums) {
  TROUPE_CHECK(checks::cross_entropy_sums(logits, slice, targets, peaks, sums));
  const auto rows = logits.dims().rows();
  TROUPE_CHECK(expect_below(checked_indices::cross_entropy_target, targets, slice.total));
  return launch("cross_entropy_sums", stream_, exponentiate_rows, blocks_for(rows, 1), threads_per_block, 0,
                logits.data<float>(), rows, logits.dims().back(), slice, targets.data<std::int32_t>(),
                peaks.data<float>(), sums.data<float>());
}

status cuda_backend::cross_entropy_gradient(const tensor& logits, const vocabulary_slice& slice, const tensor& targets,
                                            const tensor& sums, float scale, const tensor& loss) {
  TROUPE_CHECK(checks::cross_entropy_gradient(logits, slice, targets, sums, loss));
  const auto rows = logits.dims().rows();
  TROUPE_TRY(float* scratch, scratch_.floats(2 * (rows + most_parts)));  // of f64
  auto* losses = reinterpret_cast<double*>(scratch);
  TROUPE_CHECK(launch("cross_entropy_gradient", stream_, finish_rows, blocks_for(rows, 1), threads_per_block, 0,
                      logits.data<float>(), rows, logits.dims().back(), slice, targets.data<std::int32_t>(),
                      sums.data<float>(), scale, losses));
  return sum_all(
      "cross_entropy_gradient", stream_, rows, losses + rows, [losses] __device__(std::int64_t i) { return losses[i]; },
      [loss = loss.data<float>(), scale] __device__(double sum) { *loss = static_cast<float>(scale * sum); });
}

}  // namespace troupe
