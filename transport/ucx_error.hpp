#pragma once

#include <ucs/type/status.h>

#include <string>

#include "kernels/core/result.hpp"

namespace troupe {

/// UCX's status as an error: its text joins `where`, its number is `native`.
error ucx_error(errc code, ucs_status_t status, const std::string& where);

}  // namespace troupe
