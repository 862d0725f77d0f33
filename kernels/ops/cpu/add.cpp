#include "kernels/ops/checks.hpp"
#include "kernels/ops/cpu/cpu_backend.hpp"
#include "kernels/ops/cpu/vectorised.hpp"

namespace troupe {

namespace {

TROUPE_VECTORISED void add_elements(const float* a, const float* b, float* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

}  // namespace

status cpu_backend::add(const tensor& a, const tensor& b, const tensor& y) {
  TROUPE_CHECK(checks::same("add", {{"a", &a}, {"b", &b}, {"y", &y}}));
  add_elements(a.data<float>(), b.data<float>(), y.data<float>(), y.elements());
  return {};
}

}  // namespace troupe
