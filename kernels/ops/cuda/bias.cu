#include "kernels/ops/checks.hpp"
#include "kernels/ops/cuda/column_sums.cuh"
#include "kernels/ops/cuda/cuda_backend.hpp"

namespace troupe {

status cuda_backend::add_bias(const tensor& y, const tensor& bias) {
  TROUPE_CHECK(checks::rows_and_vector("add_bias", "y", y, "bias", bias));
  return for_each("add_bias", stream_, y.elements(),
                  [y = y.data<float>(), bias = bias.data<float>(), n = y.dims().back()] __device__(std::int64_t i) {
                    y[i] += bias[i % n];
                  });
}

status cuda_backend::bias_backward(const tensor& dy, const tensor& dbias) {
  TROUPE_CHECK(checks::rows_and_vector("bias_backward", "dy", dy, "dbias", dbias));
  const auto n = dy.dims().back();
  return add_column_sums(
      "bias_backward", stream_, dbias.data<float>(), dy.dims().rows(), n,
      [dy = dy.data<float>(), n] __device__(std::int64_t row, std::int64_t column) { return dy[row * n + column]; });
}

}  // namespace troupe
