#include "kernels/ops/cuda/dynamic_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace troupe {

result<dynamic_library> dynamic_library::open(std::string product, std::initializer_list<const char*> files) {
  for (const char* file : files)
    if (void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL)) return dynamic_library(std::move(product), handle);
  return invalid(fmt::format("loading {}: {}", product, dlerror()));
}

void* dynamic_library::address_of(const char* symbol) {
  void* address = dlsym(handle_, symbol);
  if (address == nullptr && missing_.empty()) missing_ = symbol;
  return address;
}

status dynamic_library::complete() const {
  if (missing_.empty()) return {};
  return invalid(fmt::format("loading {}: it lacks {}, which Troupe needs", product_, missing_));
}

}  // namespace troupe
