#include "kernels/ops/checks.hpp"
#include "kernels/ops/cpu/cpu_backend.hpp"
#include "kernels/ops/cpu/exponential.hpp"

namespace troupe {

namespace {

// With u = √(2/π)(x + 0.044715·x³), 0.5·(1 + tanh u) = 1 / (1 + e^(−2u)): one exponential, and no cancellation at
// negative x. These are 2√(2/π) and 0.044715 times it.
constexpr float twice_root = 1.59576912F;
constexpr float twice_root_cubic = 0.0713548163F;

// e^(−2u), kept finite so that its product with a vanishing 1 / (1 + e^(−2u)) is not NaN.
TROUPE_INLINE float decay_of(float x) {
  const float exponent = -x * (twice_root + twice_root_cubic * (x * x));
  return exponential(exponent > 80.0F ? 80.0F : exponent);
}

TROUPE_VECTORISED void gelu_elements(const float* x, float* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] / (1.0F + decay_of(x[i]));
}

TROUPE_VECTORISED void gelu_backward_elements(const float* x, const float* dy, float* dx, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float v = x[i], decay = decay_of(v);
    const float gate = 1.0F / (1.0F + decay);
    const float slope = twice_root + 3.0F * twice_root_cubic * (v * v);  // of 2u
    dx[i] = dy[i] * (gate + v * slope * gate * (decay * gate));
  }
}

}  // namespace

status cpu_backend::gelu(const tensor& x, const tensor& y) {
  TROUPE_CHECK(checks::same("gelu", {{"x", &x}, {"y", &y}}));
  gelu_elements(x.data<float>(), y.data<float>(), x.elements());
  return {};
}

status cpu_backend::gelu_backward(const tensor& x, const tensor& dy, const tensor& dx) {
  TROUPE_CHECK(checks::same("gelu_backward", {{"x", &x}, {"dy", &dy}, {"dx", &dx}}));
  gelu_backward_elements(x.data<float>(), dy.data<float>(), dx.data<float>(), x.elements());
  return {};
}

}  // namespace troupe
