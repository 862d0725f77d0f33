#include "actors/stage/gradient_layout.hpp"

#include <algorithm>
#include <cstddef>

namespace troupe {

namespace {
constexpr std::int64_t line = 16;  // floats of a cache line: where parameters begin
std::int64_t up_to_line(std::int64_t n) { return (n + line - 1) / line * line; }
}  // namespace

flat_range common_part(const flat_range& a, const flat_range& b) {
  const auto first = std::max(a.first, b.first), end = std::min(a.end(), b.end());
  return {first, std::max<std::int64_t>(0, end - first)};
}

flat_range gradient_layout::share(std::size_t bucket, std::uint32_t replica, std::uint32_t replicas) const {
  const auto& whole = buckets[bucket];
  const auto each = up_to_line((whole.count + replicas - 1) / replicas);
  const auto first = std::min(whole.end(), whole.first + replica * each);
  return {first, std::min(each, whole.end() - first)};
}

gradient_layout lay_out(const std::vector<std::int64_t>& elements, const std::vector<bool>& late,
                        std::int64_t bucket_elements) {
  gradient_layout layout;
  layout.parameters.resize(elements.size());
  const auto close = [&](std::int64_t first) {
    if (layout.elements > first) layout.buckets.push_back({first, layout.elements - first});
  };
  std::int64_t first = 0;
  for (const bool of_late : {false, true}) {
    for (auto i = elements.size(); i-- > 0;) {  // backward: the last layer's come first
      if (late[i] != of_late) continue;
      layout.parameters[i] = {layout.elements, elements[i]};
      layout.elements += up_to_line(elements[i]);
      if (layout.elements - first < bucket_elements) continue;
      close(first);
      first = layout.elements;
    }
    close(first);
    first = layout.elements;
  }
  layout.members.resize(layout.buckets.size());
  for (std::size_t b = 0; b < layout.buckets.size(); ++b)
    for (std::size_t p = 0; p < elements.size(); ++p)
      if (common_part(layout.parameters[p], layout.buckets[b]).count > 0) layout.members[b].push_back(p);
  return layout;
}

}  // namespace troupe
