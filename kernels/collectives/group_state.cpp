#include "kernels/collectives/group_state.hpp"

#include <fmt/format.h>

namespace troupe::group {

std::string_view to_string(operation what) noexcept {
  constexpr std::string_view names[] = {"all_reduce (sum)", "all_reduce (max)", "all_gather",
                                        "reduce_scatter",   "broadcast",        "barrier"};
  return names[static_cast<std::size_t>(what)];
}

std::string to_string(const request& r) {
  if (r.what == operation::barrier) return "barrier";
  auto text = fmt::format("{} of {} {}", to_string(r.what), r.elements, to_string(r.type));
  return r.what == operation::broadcast ? fmt::format("{} from {}", text, r.root) : text;
}

bool same(const request& a, const request& b) noexcept {
  return a.what == b.what && a.type == b.type && a.root == b.root && a.elements == b.elements;
}

}  // namespace troupe::group
