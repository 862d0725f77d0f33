#include "kernels/ops/adamw_factors.hpp"
#include "kernels/ops/checks.hpp"
#include "kernels/ops/cuda/cuda_backend.hpp"
#include "kernels/ops/cuda/launch.cuh"

namespace troupe {

namespace {

__device__ void update_element(const adamw_args& args, const adamw_factors& f, float& parameter, float gradient,
                               float& moment1, float& moment2) {
  const float g = gradient * args.gradient_scale;
  const float m = args.beta1 * moment1 + (1.0F - args.beta1) * g;
  const float v = args.beta2 * moment2 + (1.0F - args.beta2) * (g * g);
  moment1 = m;
  moment2 = v;
  parameter = parameter * f.keep - f.rate * m / (sqrtf(v) * f.unbias + args.epsilon);
}

}  // namespace

status cuda_backend::adamw(const adamw_args& args, const tensor& parameter, const tensor& gradient,
                           const tensor& moment1, const tensor& moment2) {
  TROUPE_CHECK(checks::adamw(args, parameter, gradient, moment1, moment2));
  return for_each(
      "adamw", stream_, parameter.elements(),
      [args, f = factors_of(args), p = parameter.data<float>(), g = gradient.data<float>(), m = moment1.data<float>(),
       v = moment2.data<float>()] __device__(std::int64_t i) { update_element(args, f, p[i], g[i], m[i], v[i]); });
}

}  // namespace troupe
