#include <algorithm>

#include "kernels/ops/checks.hpp"
#include "kernels/ops/cpu/cpu_backend.hpp"
#include "kernels/ops/cpu/vectorised.hpp"

namespace troupe {

namespace {

TROUPE_VECTORISED void add_to_rows(float* y, const float* bias, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, y += n) {
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) y[j] += bias[j];
  }
}

// Four rows at a time, so that the sums are loaded and stored a quarter as often; still in ascending order.
TROUPE_VECTORISED void sum_rows(const float* y, float* sums, std::int64_t rows, std::int64_t n) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4, y += 4 * n) {
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) sums[j] = (((sums[j] + y[j]) + y[n + j]) + y[2 * n + j]) + y[3 * n + j];
  }
  for (; r < rows; ++r, y += n) {
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) sums[j] += y[j];
  }
}

}  // namespace

status cpu_backend::add_bias(const tensor& y, const tensor& bias) {
  TROUPE_CHECK(checks::rows_and_vector("add_bias", "y", y, "bias", bias));
  add_to_rows(y.data<float>(), bias.data<float>(), y.dims().rows(), y.dims().back());
  return {};
}

status cpu_backend::bias_backward(const tensor& dy, const tensor& dbias) {
  TROUPE_CHECK(checks::rows_and_vector("bias_backward", "dy", dy, "dbias", dbias));
  const auto n = dy.dims().back();
  TROUPE_TRY(float* sums, scratch_.floats(n));
  std::fill_n(sums, n, 0.0F);
  sum_rows(dy.data<float>(), sums, dy.dims().rows(), n);
  add_to_rows(dbias.data<float>(), sums, 1, n);
  return {};
}

}  // namespace troupe
