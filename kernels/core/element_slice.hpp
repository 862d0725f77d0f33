#pragma once

#include <cstdint>
#include <limits>

namespace troupe {

/// Which elements of a whole tensor a part of it holds, both counted row-major: element i of the part is element
/// `first + i / run · stride + i % run` of the whole. A block of rows is one run; a block of columns is a run a row.
/// Elements from `end` on are padding, and zero. By default the part is the whole.
struct element_slice {
  std::int64_t first = 0;
  std::int64_t run = std::numeric_limits<std::int64_t>::max();
  std::int64_t stride = 0;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();

  constexpr std::int64_t operator()(std::int64_t i) const noexcept { return first + i / run * stride + i % run; }
  friend bool operator==(const element_slice&, const element_slice&) = default;
};

}  // namespace troupe
