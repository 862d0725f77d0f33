#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "kernels/core/dtype.hpp"

namespace troupe {

/// The extents of a tensor, row-major, outermost first. At most `max_rank`; rank 0 is a scalar of one element.
/// A value: no allocation.
class shape {
public:
  static constexpr std::size_t max_rank = 6;

  constexpr shape() = default;
  constexpr shape(std::initializer_list<std::int64_t> dims) : rank_(static_cast<std::uint8_t>(dims.size())) {
    assert(dims.size() <= max_rank);
    std::size_t i = 0;
    for (auto d : dims) dims_[i++] = d;
  }
  explicit constexpr shape(std::span<const std::int64_t> dims) : rank_(static_cast<std::uint8_t>(dims.size())) {
    assert(dims.size() <= max_rank);
    for (std::size_t i = 0; i < dims.size(); ++i) dims_[i] = dims[i];
  }

  constexpr std::size_t rank() const noexcept { return rank_; }
  constexpr std::int64_t operator[](std::size_t axis) const noexcept { return assert(axis < rank_), dims_[axis]; }
  constexpr std::span<const std::int64_t> dims() const noexcept { return {dims_.data(), rank_}; }
  constexpr std::int64_t back() const noexcept { return rank_ == 0 ? 1 : dims_[rank_ - 1]; }

  /// The number of elements.
  constexpr std::int64_t elements() const noexcept {
    std::int64_t n = 1;
    for (auto d : dims()) n *= d;
    return n;
  }
  /// Elements over all axes but the last: how many rows a row-wise operation sees.
  constexpr std::int64_t rows() const noexcept {
    std::int64_t n = 1;
    for (std::size_t i = 0; i + 1 < rank_; ++i) n *= dims_[i];
    return n;
  }
  /// The same with another last extent.
  constexpr shape with_last(std::int64_t extent) const noexcept {
    shape s = *this;
    s.dims_[rank_ - 1] = extent;
    return s;
  }
  friend constexpr bool operator==(const shape& a, const shape& b) noexcept {
    if (a.rank_ != b.rank_) return false;
    for (std::size_t i = 0; i < a.rank_; ++i)
      if (a.dims_[i] != b.dims_[i]) return false;
    return true;
  }

private:
  std::array<std::int64_t, max_rank> dims_{};
  std::uint8_t rank_ = 0;
};

/// "[4, 256, 512]".
std::string to_string(const shape& s);

/// What a tensor looks like without its data.
struct tensor_spec {
  dtype type = dtype::f32;
  shape dims;
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(dims.elements()) * size_of(type); }
  friend bool operator==(const tensor_spec&, const tensor_spec&) = default;
};

/// "f32 [4, 256, 512]".
std::string to_string(const tensor_spec& s);

}  // namespace troupe
