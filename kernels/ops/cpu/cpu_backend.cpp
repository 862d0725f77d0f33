#include "kernels/ops/cpu/cpu_backend.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/ops/checks.hpp"

namespace troupe {

status cpu_backend::fill(const tensor& x, float value) {
  TROUPE_CHECK(checks::is("fill", "x", x, dtype::f32));
  std::ranges::fill(x.values<float>(), value);
  return {};
}

status cpu_backend::copy(const tensor& from, const tensor& to) {
  TROUPE_CHECK(checks::copy(from, to));
  std::memmove(to.raw(), from.raw(), from.bytes());
  return {};
}

result<std::unique_ptr<backend>> make_cpu_backend(std::shared_ptr<memory_source> memory) {
  return std::unique_ptr<backend>(std::make_unique<cpu_backend>(std::move(memory)));
}

}  // namespace troupe
