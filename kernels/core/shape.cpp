#include "kernels/core/shape.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/core/device.hpp"

namespace troupe {

std::string to_string(const shape& s) { return fmt::format("[{}]", fmt::join(s.dims(), ", ")); }

std::string to_string(const tensor_spec& s) { return fmt::format("{} {}", to_string(s.type), to_string(s.dims)); }

std::string to_string(device d) { return d.kind == device_kind::cpu ? "cpu" : fmt::format("cuda:{}", d.index); }

}  // namespace troupe
