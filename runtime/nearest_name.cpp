#include "runtime/nearest_name.hpp"

#include <algorithm>
#include <numeric>

namespace troupe {

// Optimal string alignment: Levenshtein's table with a row more, for swapped neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = above;
    above = row;
  }
  return above.back();
}

std::string_view nearest_name(std::string_view name, const std::vector<std::string_view>& candidates) {
  const auto nearest = std::min_element(candidates.begin(), candidates.end(), [&](auto a, auto b) {
    return edit_distance(name, a) < edit_distance(name, b);
  });
  return nearest == candidates.end() ? std::string_view() : *nearest;
}

}  // namespace troupe
