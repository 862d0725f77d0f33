#include "kernels/ops/backend.hpp"

#include <fmt/format.h>

namespace troupe {

result<std::unique_ptr<backend>> make_backend(device where) {
  if (where.kind == device_kind::cpu) return make_cpu_backend();
  return invalid(fmt::format("make_backend: {}: this Troupe was built without a CUDA backend", to_string(where)));
}

}  // namespace troupe
