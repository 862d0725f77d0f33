#include <cmath>

#include "kernels/ops/adamw_factors.hpp"
#include "kernels/ops/checks.hpp"
#include "kernels/ops/cpu/cpu_backend.hpp"
#include "kernels/ops/cpu/vectorised.hpp"

namespace troupe {

namespace {

TROUPE_VECTORISED void update(const adamw_args& args, float* parameter, const float* gradient, float* moment1,
                              float* moment2, std::int64_t n) {
  const auto f = factors_of(args);
  const float scale = args.gradient_scale, epsilon = args.epsilon;
  const float beta1 = args.beta1, rest1 = 1.0F - beta1, beta2 = args.beta2, rest2 = 1.0F - beta2;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = gradient[i] * scale;
    const float m = beta1 * moment1[i] + rest1 * g;
    const float v = beta2 * moment2[i] + rest2 * (g * g);
    moment1[i] = m;
    moment2[i] = v;
    parameter[i] = parameter[i] * f.keep - f.rate * m / (std::sqrt(v) * f.unbias + epsilon);
  }
}

}  // namespace

status cpu_backend::adamw(const adamw_args& args, const tensor& parameter, const tensor& gradient,
                          const tensor& moment1, const tensor& moment2) {
  TROUPE_CHECK(checks::adamw(args, parameter, gradient, moment1, moment2));
  update(args, parameter.data<float>(), gradient.data<float>(), moment1.data<float>(), moment2.data<float>(),
         parameter.elements());
  return {};
}

}  // namespace troupe
