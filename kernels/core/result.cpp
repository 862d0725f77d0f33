#include "kernels/core/result.hpp"

#include <fmt/format.h>

namespace troupe {

std::string_view to_string(errc code) noexcept {
  switch (code) {
    case errc::invalid_argument:
      return "invalid argument";
    case errc::peer_unreachable:
      return "peer unreachable";
    case errc::collective_aborted:
      return "collective aborted";
    case errc::device_lost:
      return "device lost";
    case errc::out_of_memory:
      return "out of memory";
    case errc::timed_out:
      return "timed out";
    case errc::cancelled:
      return "cancelled";
    case errc::stage_failed:
      return "stage failed";
    case errc::system_failure:
      return "system failure";
  }
  return "unknown";
}

std::string to_string(const error& e) {
  return e.native == 0 ? fmt::format("{}: {}", e.where, to_string(e.code))
                       : fmt::format("{}: {} ({})", e.where, to_string(e.code), e.native);
}

}  // namespace troupe
