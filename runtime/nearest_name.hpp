#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace troupe {

/// How many letters must be changed, added, left out or swapped with their neighbour to make `b` of `a`.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `name`, the first of several; empty when there is none.
std::string_view nearest_name(std::string_view name, const std::vector<std::string_view>& candidates);

}  // namespace troupe
