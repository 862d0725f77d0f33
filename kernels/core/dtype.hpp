#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe {

/// The type of a tensor's elements. The numbers go over the wire and into files: never reorder them.
enum class dtype : std::uint8_t { f32 = 1, bf16 = 2, i32 = 3, u8 = 4 };

constexpr bool is_dtype(std::uint8_t number) noexcept { return number >= 1 && number <= 4; }

/// Bytes of one element.
constexpr std::size_t size_of(dtype type) noexcept {
  switch (type) {
    case dtype::f32:
    case dtype::i32:
      return 4;
    case dtype::bf16:
      return 2;
    case dtype::u8:
      return 1;
  }
  return 0;
}

constexpr std::string_view to_string(dtype type) noexcept {
  switch (type) {
    case dtype::f32:
      return "f32";
    case dtype::bf16:
      return "bf16";
    case dtype::i32:
      return "i32";
    case dtype::u8:
      return "u8";
  }
  return "?";
}

/// The dtype of a C++ type; `void*`-typed code has none.
template <class T>
inline constexpr dtype dtype_of = [] {
  static_assert(sizeof(T) == 0, "no dtype for this type");
  return dtype::f32;
}();
template <>
inline constexpr dtype dtype_of<float> = dtype::f32;
template <>
inline constexpr dtype dtype_of<std::int32_t> = dtype::i32;
template <>
inline constexpr dtype dtype_of<std::uint8_t> = dtype::u8;

}  // namespace troupe
