#include <cmath>

#include "kernels/ops/checks.hpp"
#include "kernels/ops/cpu/cpu_backend.hpp"
#include "kernels/ops/cpu/softmax.hpp"

namespace troupe {

namespace {

// Returns the unscaled sum of losses, in f64 over rows in ascending order.
TROUPE_VECTORISED double cross_entropy_rows(float* logits, const std::int32_t* targets, float scale, std::int64_t rows,
                                            std::int64_t n) {
  double losses = 0;
  for (std::int64_t r = 0; r < rows; ++r, logits += n) {
    const auto target = targets[r];
    const double target_logit = logits[target];
    const float top = largest(logits, n);
    const float total = exponentiate_and_sum(logits, n, top);
    losses += static_cast<double>(top) + std::log(static_cast<double>(total)) - target_logit;
    const float to_gradient = scale / total;
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) logits[j] *= to_gradient;
    logits[target] -= scale;
  }
  return losses;
}

}  // namespace

status cpu_backend::cross_entropy(const tensor& logits, const tensor& targets, float scale, const tensor& loss) {
  TROUPE_CHECK(checks::cross_entropy(logits, targets, loss));
  TROUPE_CHECK(checks::below("cross_entropy", "target", targets, logits.dims().back()));
  const double losses = cross_entropy_rows(logits.data<float>(), targets.data<std::int32_t>(), scale,
                                           logits.dims().rows(), logits.dims().back());
  *loss.data<float>() = static_cast<float>(scale * losses);
  return {};
}

}  // namespace troupe
