#include "kernels/ops/backend.hpp"

#include <fmt/format.h>

namespace troupe {

result<std::unique_ptr<backend>> make_backend(device where) {
  if (where.kind == device_kind::cpu) return make_cpu_backend();
#ifdef TROUPE_WITH_CUDA
  return make_cuda_backend(where);
#else
  return invalid(
      fmt::format("{}: this Troupe was built without CUDA (-DTROUPE_CUDA=ON with the toolkit at hand); set "
                  "parallel.device = \"cpu\"",
                  to_string(where)));
#endif
}

}  // namespace troupe
