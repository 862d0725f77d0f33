#include "kernels/ops/checks.hpp"
#include "kernels/ops/cuda/cuda_backend.hpp"
#include "kernels/ops/cuda/launch.cuh"

namespace troupe {

namespace {

// The CPU's formula (kernels/ops/cpu/gelu.cpp): with u = √(2/π)(x + 0.044715·x³), 0.5·(1 + tanh u) = 1 / (1 + e^(−2u)).
constexpr float twice_root = 1.59576912F;
constexpr float twice_root_cubic = 0.0713548163F;

// e^(−2u), kept finite so that its product with a vanishing 1 / (1 + e^(−2u)) is not NaN.
__device__ float decay_of(float x) {
  const float exponent = -x * (twice_root + twice_root_cubic * (x * x));
  return expf(exponent > 80.0F ? 80.0F : exponent);
}

}  // namespace

status cuda_backend::gelu(const tensor& x, const tensor& y) {
  TROUPE_CHECK(checks::same("gelu", {{"x", &x}, {"y", &y}}));
  return for_each("gelu", stream_, x.elements(), [x = x.data<float>(), y = y.data<float>()] __device__(std::int64_t i) {
    y[i] = x[i] / (1.0F + decay_of(x[i]));
  });
}

status cuda_backend::gelu_backward(const tensor& x, const tensor& dy, const tensor& dx) {
  TROUPE_CHECK(checks::same("gelu_backward", {{"x", &x}, {"dy", &dy}, {"dx", &dx}}));
  return for_each("gelu_backward", stream_, x.elements(),
                  [x = x.data<float>(), dy = dy.data<float>(), dx = dx.data<float>()] __device__(std::int64_t i) {
                    const float v = x[i], decay = decay_of(v);
                    const float gate = 1.0F / (1.0F + decay);
                    const float slope = twice_root + 3.0F * twice_root_cubic * (v * v);  // of 2u
                    dx[i] = dy[i] * (gate + v * slope * gate * (decay * gate));
                  });
}

}  // namespace troupe
