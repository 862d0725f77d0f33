#include <cmath>

#include "kernels/ops/checks.hpp"
#include "kernels/ops/cpu/cpu_backend.hpp"
#include "kernels/ops/cpu/softmax.hpp"

namespace troupe {

namespace {

TROUPE_VECTORISED void find_peaks(const float* logits, std::int64_t rows, std::int64_t stride, std::int64_t count,
                                  float* peaks) {
  for (std::int64_t r = 0; r < rows; ++r) peaks[r] = largest(logits + r * stride, count);
}

TROUPE_VECTORISED void exponentiate_rows(float* logits, std::int64_t rows, std::int64_t stride,
                                         const vocabulary_slice& slice, const std::int32_t* targets, const float* peaks,
                                         float* sums) {
  for (std::int64_t r = 0; r < rows; ++r, logits += stride) {
    const auto target = targets[r] - slice.first;
    sums[rows + r] = target >= 0 && target < slice.count ? logits[target] - peaks[r] : 0.0F;
    sums[r] = slice.count > 0 ? exponentiate_and_sum(logits, slice.count, peaks[r]) : 0.0F;
    for (auto j = slice.count; j < stride; ++j) logits[j] = 0;
  }
}

// Returns the unscaled sum of losses, in f64 over rows in ascending order.
TROUPE_VECTORISED double finish_rows(float* logits, std::int64_t rows, std::int64_t stride,
                                     const vocabulary_slice& slice, const std::int32_t* targets, const float* sums,
                                     float scale) {
  double losses = 0;
  for (std::int64_t r = 0; r < rows; ++r, logits += stride) {
    losses += std::log(static_cast<double>(sums[r])) - static_cast<double>(sums[rows + r]);
    const float to_gradient = scale / sums[r];
#pragma omp simd
    for (std::int64_t j = 0; j < slice.count; ++j) logits[j] *= to_gradient;
    const auto target = targets[r] - slice.first;
    if (target >= 0 && target < slice.count) logits[target] -= scale;
  }
  return losses;
}

}  // namespace

status cpu_backend::cross_entropy_peaks(const tensor& logits, const vocabulary_slice& slice, const tensor& peaks) {
  TROUPE_CHECK(checks::cross_entropy_peaks(logits, slice, peaks));
  const auto rows = logits.dims().rows();
  if (slice.count == 0) return fill(peaks, -INFINITY);
  find_peaks(logits.data<float>(), rows, logits.dims().back(), slice.count, peaks.data<float>());
  return {};
}

status cpu_backend::cross_entropy_sums(const tensor& logits, const vocabulary_slice& slice, const tensor& targets,
                                       const tensor& peaks, const tensor& sums) {
  TROUPE_CHECK(checks::cross_entropy_sums(logits, slice, targets, peaks, sums));
  const auto rows = logits.dims().rows();
  TROUPE_CHECK(checks::below("cross_entropy_sums", "target", targets, slice.total));
  exponentiate_rows(logits.data<float>(), rows, logits.dims().back(), slice, targets.data<std::int32_t>(),
                    peaks.data<float>(), sums.data<float>());
  return {};
}

status cpu_backend::cross_entropy_gradient(const tensor& logits, const vocabulary_slice& slice, const tensor& targets,
                                           const tensor& sums, float scale, const tensor& loss) {
  TROUPE_CHECK(checks::cross_entropy_gradient(logits, slice, targets, sums, loss));
  const auto rows = logits.dims().rows();
  const double losses = finish_rows(logits.data<float>(), rows, logits.dims().back(), slice,
                                    targets.data<std::int32_t>(), sums.data<float>(), scale);
  *loss.data<float>() = static_cast<float>(scale * losses);
  return {};
}

}  // namespace troupe
