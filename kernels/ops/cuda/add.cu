#include "kernels/ops/checks.hpp"
#include "kernels/ops/cuda/cuda_backend.hpp"
#include "kernels/ops/cuda/launch.cuh"

namespace troupe {

status cuda_backend::add(const tensor& a, const tensor& b, const tensor& y) {
  TROUPE_CHECK(checks::same("add", {{"a", &a}, {"b", &b}, {"y", &y}}));
  return for_each("add", stream_, y.elements(),
                  [a = a.data<float>(), b = b.data<float>(), y = y.data<float>()] __device__(std::int64_t i) {
                    y[i] = a[i] + b[i];
                  });
}

}  // namespace troupe
