#pragma once

#include <cassert>
#include <cstddef>
#include <span>

#include "kernels/core/buffer.hpp"
#include "kernels/core/shape.hpp"

namespace troupe {

/// A dense, row-major view of a shared buffer. A value: copying shares the bytes, never copies them.
class tensor {
public:
  tensor() = default;
  tensor(buffer bytes, tensor_spec spec, std::size_t offset = 0)
      : buffer_(std::move(bytes)), spec_(spec), offset_(offset) {
    assert(offset_ + spec_.bytes() <= buffer_.capacity());
  }
  /// A new tensor from `pool`; contents unspecified. Errors: `out_of_memory`.
  static result<tensor> make(buffer_pool& pool, tensor_spec spec);

  explicit operator bool() const noexcept { return static_cast<bool>(buffer_); }
  const tensor_spec& spec() const noexcept { return spec_; }
  dtype type() const noexcept { return spec_.type; }
  const shape& dims() const noexcept { return spec_.dims; }
  std::int64_t elements() const noexcept { return spec_.dims.elements(); }
  std::size_t bytes() const noexcept { return spec_.bytes(); }
  /// True when no other tensor shares the bytes: they may be overwritten in place.
  bool unique() const noexcept { return buffer_.unique(); }

  void* raw() const noexcept { return static_cast<std::byte*>(buffer_.data()) + offset_; }
  template <class T>
  T* data() const noexcept {
    assert(dtype_of<T> == spec_.type);
    return static_cast<T*>(raw());
  }
  /// All elements; for host tensors.
  template <class T>
  std::span<T> values() const noexcept {
    return {data<T>(), static_cast<std::size_t>(elements())};
  }

  /// The same bytes under other extents; their product must stay the same (asserted).
  tensor reshaped(shape dims) const {
    assert(dims.elements() == elements());
    return {buffer_, {spec_.type, dims}, offset_};
  }
  /// `count` elements from element `first`, as a vector.
  tensor slice(std::int64_t first, std::int64_t count) const {
    assert(first >= 0 && first + count <= elements());
    return {buffer_, {spec_.type, {count}}, offset_ + static_cast<std::size_t>(first) * size_of(spec_.type)};
  }

private:
  buffer buffer_;
  tensor_spec spec_;
  std::size_t offset_ = 0;
};

}  // namespace troupe
