#pragma once

#include <initializer_list>
#include <string>
#include <type_traits>

#include "kernels/core/result.hpp"

namespace troupe {

/// A library that is opened at the first need, not linked: loading hundreds of megabytes is for those who have a GPU.
/// Stays open: its threads and handles may live to the end.
class dynamic_library {
public:
  /// The first of `files` that can be loaded. Errors: `invalid_argument`, naming `product`.
  static result<dynamic_library> open(std::string product, std::initializer_list<const char*> files);

  /// Binds a function pointer to what the library exports under that name.
  template <class Function>
  void find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(address_of(symbol));
  }
  /// Errors: `invalid_argument` if a function was not found, naming the first.
  status complete() const;

private:
  dynamic_library(std::string product, void* handle) : product_(std::move(product)), handle_(handle) {}
  void* address_of(const char* symbol);

  std::string product_, missing_;
  void* handle_;
};

}  // namespace troupe
