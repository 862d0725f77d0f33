#include "transport/ucx_error.hpp"

#include <fmt/format.h>

namespace troupe {

error ucx_error(errc code, ucs_status_t status, const std::string& where) {
  return {code, fmt::format("{}: {}", where, ucs_status_string(status)), static_cast<int>(status)};
}

}  // namespace troupe
