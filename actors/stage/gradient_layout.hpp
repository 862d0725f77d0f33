#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

/// A stretch of a stage's flat gradient memory, in elements.
struct flat_range {
  std::int64_t first = 0, count = 0;
  std::int64_t end() const noexcept { return first + count; }
  friend bool operator==(const flat_range&, const flat_range&) = default;
};
/// Where two stretches meet; `count` 0 where they do not.
flat_range common_part(const flat_range& a, const flat_range& b);

/// Where the gradients of a stage's parameters lie in one flat stretch of memory, and how that is cut into buckets: the
/// unit in which replicas exchange gradients. Parameters lie in the order in which the last micro-batch's backward
/// completes them, so that the first buckets can leave while it still runs; every replica has the same layout.
struct gradient_layout {
  std::vector<flat_range> parameters;             ///< in the order they were given
  std::vector<flat_range> buckets;                ///< ascending; every parameter lies in one
  std::vector<std::vector<std::size_t>> members;  ///< [bucket]: its parameters
  std::int64_t elements = 0;

  /// The part of a bucket that `replica` of `replicas` adds up (and with ZeRO-1 updates); empty for the last ones where
  /// there are more replicas than elements.
  flat_range share(std::size_t bucket, std::uint32_t replica, std::uint32_t replicas) const;
};

/// `elements[i]` of parameter i; `late[i]`: complete only when everything else is (its gradient is shared with another
/// stage). A bucket closes when it holds at least `bucket_elements`.
gradient_layout lay_out(const std::vector<std::int64_t>& elements, const std::vector<bool>& late,
                        std::int64_t bucket_elements);

}  // namespace troupe
