#include "kernels/ops/checks.hpp"
#include "kernels/ops/cpu/cpu_backend.hpp"
#include "kernels/ops/cpu/vectorised.hpp"

namespace troupe {

namespace {

TROUPE_VECTORISED double squared_difference(const float* y, const float* target, std::int64_t n) {
  return sum<double>(
      n, [=](std::int64_t i) __attribute__((always_inline)) {
        const double difference = static_cast<double>(y[i]) - static_cast<double>(target[i]);
        return difference * difference;
      });
}

TROUPE_VECTORISED void difference_gradient(float* y, const float* target, float scale, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = 2.0F * scale * (y[i] - target[i]);
}

// The square of an f32 is exact in f64, so a fused multiply-add changes nothing: the same bits on every CPU.
TROUPE_VECTORISED double sum_of_squares(const float* x, std::int64_t n) {
  return sum<double>(
      n, [x](std::int64_t i) __attribute__((always_inline)) {
        const double value = x[i];
        return value * value;
      });
}

}  // namespace

status cpu_backend::squared_error(const tensor& y, const tensor& target, float scale, const tensor& loss) {
  TROUPE_CHECK(checks::same("squared_error", {{"y", &y}, {"target", &target}}));
  TROUPE_CHECK(checks::has("squared_error", "loss", loss, dtype::f32, 1));
  const auto n = y.elements();
  *loss.data<float>() = static_cast<float>(scale * squared_difference(y.data<float>(), target.data<float>(), n));
  difference_gradient(y.data<float>(), target.data<float>(), scale, n);
  return {};
}

result<double> cpu_backend::squared_norm(const tensor& x) {
  TROUPE_CHECK(checks::is("squared_norm", "x", x, dtype::f32));
  return sum_of_squares(x.data<float>(), x.elements());
}

}  // namespace troupe
