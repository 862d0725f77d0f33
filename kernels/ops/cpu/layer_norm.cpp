#include <algorithm>
#include <cmath>

#include "kernels/ops/checks.hpp"
#include "kernels/ops/cpu/cpu_backend.hpp"
#include "kernels/ops/cpu/vectorised.hpp"

namespace troupe {

namespace {

TROUPE_VECTORISED void normalise_rows(const float* x, const float* gamma, const float* beta, float epsilon, float* y,
                                      float* mean, float* rstd, std::int64_t rows, std::int64_t n) {
  const auto count = static_cast<float>(n);
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const float m = sum<float>(
                        n, [x](std::int64_t j) __attribute__((always_inline)) { return x[j]; }) /
                    count;
    const float variance =
        sum<float>(
            n, [ x, m ](std::int64_t j) __attribute__((always_inline)) { return (x[j] - m) * (x[j] - m); }) /
        count;
    const float s = 1.0F / std::sqrt(variance + epsilon);
    mean[r] = m;
    rstd[r] = s;
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) y[j] = (x[j] - m) * s * gamma[j] + beta[j];
  }
}

// With g = dy·gamma and x̂ the normalised x: dx = rstd·(g − mean(g) − x̂·mean(g·x̂)).
TROUPE_VECTORISED void backward_rows(const float* dy, const float* x, const float* gamma, const float* mean,
                                     const float* rstd, float* dx, const float* add_to, std::int64_t rows,
                                     std::int64_t n) {
  const auto count = static_cast<float>(n);
  for (std::int64_t r = 0; r < rows; ++r, dy += n, x += n, dx += n) {
    const float m = mean[r], s = rstd[r];
    const float g_mean = sum<float>(
                             n, [=](std::int64_t j) __attribute__((always_inline)) { return dy[j] * gamma[j]; }) /
                         count;
    const float gx_mean =
        sum<float>(
            n, [=](std::int64_t j) __attribute__((always_inline)) { return dy[j] * gamma[j] * ((x[j] - m) * s); }) /
        count;
    if (add_to) {
#pragma omp simd
      for (std::int64_t j = 0; j < n; ++j)
        dx[j] = add_to[j] + s * (dy[j] * gamma[j] - g_mean - (x[j] - m) * s * gx_mean);
      add_to += n;
    } else {
#pragma omp simd
      for (std::int64_t j = 0; j < n; ++j) dx[j] = s * (dy[j] * gamma[j] - g_mean - (x[j] - m) * s * gx_mean);
    }
  }
}

TROUPE_VECTORISED void sum_weight_gradients(const float* dy, const float* x, const float* mean, const float* rstd,
                                            float* gamma_sums, float* beta_sums, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, dy += n, x += n) {
    const float m = mean[r], s = rstd[r];
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) {
      gamma_sums[j] += dy[j] * ((x[j] - m) * s);
      beta_sums[j] += dy[j];
    }
  }
}

TROUPE_VECTORISED void add_to_vector(float* y, const float* x, std::int64_t n) {
#pragma omp simd
  for (std::int64_t j = 0; j < n; ++j) y[j] += x[j];
}

status check_statistics(std::string_view op, const tensor& x, const tensor& mean, const tensor& rstd) {
  TROUPE_CHECK(checks::has(op, "mean", mean, dtype::f32, x.dims().rows()));
  return checks::has(op, "rstd", rstd, dtype::f32, x.dims().rows());
}

}  // namespace

status cpu_backend::layer_norm(const tensor& x, const tensor& gamma, const tensor& beta, float epsilon, const tensor& y,
                               const tensor& mean, const tensor& rstd) {
  TROUPE_CHECK(checks::rows_and_vector("layer_norm", "x", x, "gamma", gamma));
  TROUPE_CHECK(checks::rows_and_vector("layer_norm", "x", x, "beta", beta));
  TROUPE_CHECK(checks::same("layer_norm", {{"x", &x}, {"y", &y}}));
  TROUPE_CHECK(check_statistics("layer_norm", x, mean, rstd));
  normalise_rows(x.data<float>(), gamma.data<float>(), beta.data<float>(), epsilon, y.data<float>(), mean.data<float>(),
                 rstd.data<float>(), x.dims().rows(), x.dims().back());
  return {};
}

status cpu_backend::layer_norm_backward_input(const tensor& dy, const tensor& x, const tensor& gamma,
                                              const tensor& mean, const tensor& rstd, const tensor& dx,
                                              const tensor& add_to) {
  constexpr auto op = "layer_norm_backward_input";
  TROUPE_CHECK(checks::rows_and_vector(op, "x", x, "gamma", gamma));
  TROUPE_CHECK(checks::same(op, {{"x", &x}, {"dy", &dy}, {"dx", &dx}, {"add_to", add_to ? &add_to : &x}}));
  TROUPE_CHECK(check_statistics(op, x, mean, rstd));
  backward_rows(dy.data<float>(), x.data<float>(), gamma.data<float>(), mean.data<float>(), rstd.data<float>(),
                dx.data<float>(), add_to ? add_to.data<float>() : nullptr, x.dims().rows(), x.dims().back());
  return {};
}

status cpu_backend::layer_norm_backward_weight(const tensor& dy, const tensor& x, const tensor& mean,
                                               const tensor& rstd, const tensor& dgamma, const tensor& dbeta) {
  constexpr auto op = "layer_norm_backward_weight";
  TROUPE_CHECK(checks::rows_and_vector(op, "x", x, "dgamma", dgamma));
  TROUPE_CHECK(checks::rows_and_vector(op, "x", x, "dbeta", dbeta));
  TROUPE_CHECK(checks::same(op, {{"x", &x}, {"dy", &dy}}));
  TROUPE_CHECK(check_statistics(op, x, mean, rstd));
  const auto n = x.dims().back();
  TROUPE_TRY(float* sums, scratch_.floats(2 * n));
  std::fill_n(sums, 2 * n, 0.0F);
  sum_weight_gradients(dy.data<float>(), x.data<float>(), mean.data<float>(), rstd.data<float>(), sums, sums + n,
                       x.dims().rows(), n);
  add_to_vector(dgamma.data<float>(), sums, n);
  add_to_vector(dbeta.data<float>(), sums + n, n);
  return {};
}

}  // namespace troupe
