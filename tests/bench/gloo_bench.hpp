#pragma once

#include <cstddef>
#include <vector>

/// Seconds of each of `calls` all-reduces of f32 sums by gloo between two threads over TCP on the loopback interface;
/// none where gloo was not found when this was built.
std::vector<double> gloo_all_reduce(std::size_t elements, int calls);
