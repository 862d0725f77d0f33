#include "kernels/ops/checks.hpp"
#include "kernels/ops/cuda/cuda_backend.hpp"
#include "kernels/ops/cuda/launch.cuh"

namespace troupe {

status cuda_backend::fill(const tensor& x, float value) {
  TROUPE_CHECK(checks::is("fill", "x", x, dtype::f32));
  return for_each("fill", stream_, x.elements(),
                  [x = x.data<float>(), value] __device__(std::int64_t i) { x[i] = value; });
}

}  // namespace troupe
