#include "kernels/ops/checks.hpp"
#include "kernels/ops/cpu/cpu_backend.hpp"
#include "kernels/ops/philox.hpp"

namespace troupe {

status cpu_backend::fill_normal(const tensor& x, std::uint64_t seed, std::string_view name, float deviation,
                                const element_slice& part) {
  TROUPE_CHECK(checks::is("fill_normal", "x", x, dtype::f32));
  philox::fill_normal(x.values<float>(), seed, name, deviation, part);
  return {};
}

status cpu_backend::fill_uniform(const tensor& x, std::uint64_t seed, std::string_view name, float bound,
                                 const element_slice& part) {
  TROUPE_CHECK(checks::is("fill_uniform", "x", x, dtype::f32));
  philox::fill_uniform(x.values<float>(), seed, name, bound, part);
  return {};
}

}  // namespace troupe
