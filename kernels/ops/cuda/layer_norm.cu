#include "kernels/ops/checks.hpp"
#include "kernels/ops/cuda/column_sums.cuh"
#include "kernels/ops/cuda/cuda_backend.hpp"
#include "kernels/ops/cuda/reduce.cuh"

namespace troupe {

namespace {

// One warp a row: the 32 lanes are the CPU's 32 partial sums, joined in the same order.
constexpr unsigned rows_per_block = threads_per_block / warp_size;

__device__ std::int64_t row_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * rows_per_block + threadIdx.x / warp_size;
}

/// Σ term(j) over one row, the same on every lane.
template <class Term>
__device__ float row_sum(std::int64_t n, Term term) {
  float own = 0;
  for (std::int64_t j = threadIdx.x % warp_size; j < n; j += warp_size) own += term(j);
  return reduce_lanes(own, sum_of());
}

/// body(j) over one row.
template <class Body>
__device__ void along_row(std::int64_t n, Body body) {
  for (std::int64_t j = threadIdx.x % warp_size; j < n; j += warp_size) body(j);
}

__global__ void normalise_rows(const float* x, const float* gamma, const float* beta, float epsilon, float* y,
                               float* mean, float* rstd, std::int64_t rows, std::int64_t n) {
  const auto row = row_of_warp();
  if (row >= rows) return;
  x += row * n;
  y += row * n;
  const auto count = static_cast<float>(n);
  const float m = row_sum(n, [=](std::int64_t j) { return x[j]; }) / count;
  const float variance = row_sum(n, [=](std::int64_t j) { return (x[j] - m) * (x[j] - m); }) / count;
  const float s = 1.0F / sqrtf(variance + epsilon);
  if (threadIdx.x % warp_size == 0) {
    mean[row] = m;
    rstd[row] = s;
  }
  along_row(n, [=](std::int64_t j) { y[j] = (x[j] - m) * s * gamma[j] + beta[j]; });
}

// With g = dy·gamma and x̂ the normalised x: dx = rstd·(g − mean(g) − x̂·mean(g·x̂)). dx may be dy: an element is written
// by the lane that read it, after the row's last sum.
__global__ void backward_rows(const float* dy, const float* x, const float* gamma, const float* mean, const float* rstd,
                              float* dx, const float* add_to, std::int64_t rows, std::int64_t n) {
  const auto row = row_of_warp();
  if (row >= rows) return;
  dy += row * n;
  x += row * n;
  dx += row * n;
  const float m = mean[row], s = rstd[row];
  const auto count = static_cast<float>(n);
  const float g_mean = row_sum(n, [=](std::int64_t j) { return dy[j] * gamma[j]; }) / count;
  const float gx_mean = row_sum(n, [=](std::int64_t j) { return dy[j] * gamma[j] * ((x[j] - m) * s); }) / count;
  along_row(n, [=](std::int64_t j) {
    const float gradient = s * (dy[j] * gamma[j] - g_mean - (x[j] - m) * s * gx_mean);
    dx[j] = add_to ? add_to[row * n + j] + gradient : gradient;
  });
}

status check_statistics(std::string_view op, const tensor& x, const tensor& mean, const tensor& rstd) {
  TROUPE_CHECK(checks::has(op, "mean", mean, dtype::f32, x.dims().rows()));
  return checks::has(op, "rstd", rstd, dtype::f32, x.dims().rows());
}

}  // namespace

status cuda_backend::layer_norm(const tensor& x, const tensor& gamma, const tensor& beta, float epsilon,
                                const tensor& y, const tensor& mean, const tensor& rstd) {
  TROUPE_CHECK(checks::rows_and_vector("layer_norm", "x", x, "gamma", gamma));
  TROUPE_CHECK(checks::rows_and_vector("layer_norm", "x", x, "beta", beta));
  TROUPE_CHECK(checks::same("layer_norm", {{"x", &x}, {"y", &y}}));
  TROUPE_CHECK(check_statistics("layer_norm", x, mean, rstd));
  const auto rows = x.dims().rows();
  return launch("layer_norm", stream_, normalise_rows, blocks_for(rows, rows_per_block), threads_per_block, 0,
                x.data<float>(), gamma.data<float>(), beta.data<float>(), epsilon, y.data<float>(), mean.data<float>(),
                rstd.data<float>(), rows, x.dims().back());
}

status cuda_backend::layer_norm_backward_input(const tensor& dy, const tensor& x, const tensor& gamma,
                                               const tensor& mean, const tensor& rstd, const tensor& dx,
                                               const tensor& add_to) {
  constexpr auto op = "layer_norm_backward_input";
  TROUPE_CHECK(checks::rows_and_vector(op, "x", x, "gamma", gamma));
  TROUPE_CHECK(checks::same(op, {{"x", &x}, {"dy", &dy}, {"dx", &dx}, {"add_to", add_to ? &add_to : &x}}));
  TROUPE_CHECK(check_statistics(op, x, mean, rstd));
  const auto rows = x.dims().rows();
  return launch(op, stream_, backward_rows, blocks_for(rows, rows_per_block), threads_per_block, 0, dy.data<float>(),
                x.data<float>(), gamma.data<float>(), mean.data<float>(), rstd.data<float>(), dx.data<float>(),
                add_to ? add_to.data<float>() : nullptr, rows, x.dims().back());
}

status cuda_backend::layer_norm_backward_weight(const tensor& dy, const tensor& x, const tensor& mean,
                                                const tensor& rstd, const tensor& dgamma, const tensor& dbeta) {
  constexpr auto op = "layer_norm_backward_weight";
  TROUPE_CHECK(checks::rows_and_vector(op, "x", x, "dgamma", dgamma));
  TROUPE_CHECK(checks::rows_and_vector(op, "x", x, "dbeta", dbeta));
  TROUPE_CHECK(checks::same(op, {{"x", &x}, {"dy", &dy}}));
  TROUPE_CHECK(check_statistics(op, x, mean, rstd));
  const auto rows = x.dims().rows(), n = x.dims().back();
  TROUPE_CHECK(add_column_sums(op, stream_, dgamma.data<float>(), rows, n,
                               [dy = dy.data<float>(), x = x.data<float>(), mean = mean.data<float>(),
                                rstd = rstd.data<float>(), n] __device__(std::int64_t row, std::int64_t column) {
                                 return dy[row * n + column] * ((x[row * n + column] - mean[row]) * rstd[row]);
                               }));
  return add_column_sums(
      op, stream_, dbeta.data<float>(), rows, n,
      [dy = dy.data<float>(), n] __device__(std::int64_t row, std::int64_t column) { return dy[row * n + column]; });
}

}  // namespace troupe
