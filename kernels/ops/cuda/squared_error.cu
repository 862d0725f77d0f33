#include "kernels/ops/checks.hpp"
#include "kernels/ops/cuda/cuda_backend.hpp"
#include "kernels/ops/cuda/reduce.cuh"

namespace troupe {

status cuda_backend::squared_error(const tensor& y, const tensor& target, float scale, const tensor& loss) {
  constexpr auto op = "squared_error";
  TROUPE_CHECK(checks::same(op, {{"y", &y}, {"target", &target}}));
  TROUPE_CHECK(checks::has(op, "loss", loss, dtype::f32, 1));
  TROUPE_TRY(float* scratch, scratch_.floats(2 * most_parts));  // of f64
  // The term's own pass writes the gradient: nobody else reads that element.
  return sum_all(
      op, stream_, y.elements(), reinterpret_cast<double*>(scratch),
      [y = y.data<float>(), target = target.data<float>(), scale] __device__(std::int64_t i) {
        const double difference = static_cast<double>(y[i]) - static_cast<double>(target[i]);
        y[i] = 2.0F * scale * (y[i] - target[i]);
        return difference * difference;
      },
      [loss = loss.data<float>(), scale] __device__(double sum) { *loss = static_cast<float>(scale * sum); });
}

// Not in the CPU's order: 32 partial sums would leave the GPU idle. The order here depends on the element count only,
// and f64 keeps the two within about 1e-14 of each other.
result<double> cuda_backend::squared_norm(const tensor& x) {
  TROUPE_CHECK(checks::is("squared_norm", "x", x, dtype::f32));
  TROUPE_TRY(float* scratch, scratch_.floats(2 * most_parts));  // of f64
  TROUPE_CHECK(sum_all(
      "squared_norm", stream_, x.elements(), reinterpret_cast<double*>(scratch),
      [x = x.data<float>()] __device__(std::int64_t i) {
        const double value = x[i];
        return value * value;
      },
      [to = &report_->squared_norm] __device__(double sum) { *to = sum; }));
  TROUPE_CHECK(synchronise());
  return report_->squared_norm;
}

}  // namespace troupe
