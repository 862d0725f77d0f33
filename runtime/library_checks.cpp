#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>

#include "runtime/machine_checks.hpp"

namespace troupe {
namespace {

/// A library that may be absent, so it is never linked. It stays loaded: drivers do not like to be taken away.
class optional_library {
public:
  explicit optional_library(const char* name) : handle_(::dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {}
  explicit operator bool() const { return handle_ != nullptr; }

  /// Calls the C function `name`, which returns int; −1 where there is none.
  template <class... Args>
  int call(const char* name, Args... args) const {
    const auto function = reinterpret_cast<int (*)(Args...)>(::dlsym(handle_, name));
    return function ? function(args...) : -1;
  }
  /// Calls the C function `name`, which takes nothing and returns a text.
  std::string text(const char* name) const {
    const auto function = reinterpret_cast<const char* (*)()>(::dlsym(handle_, name));
    return function ? function() : "";
  }

private:
  void* handle_;
};

finding absent(std::string what, std::string found, std::string remedy, bool needed) {
  return {std::move(what), finding_level::missing, needed, std::move(found), std::move(remedy)};
}

}  // namespace

finding check_ucx() {
  const optional_library library("libucp.so.0");
  if (!library) return absent("UCX", "libucp.so.0 is not there", "apt-get install libucx0", true);
  return {"UCX", finding_level::ok, true, fmt::format("version {}", library.text("ucp_get_version_string")), ""};
}

finding check_cuda() {
  const std::string remedy =
      "install NVIDIA's driver (packages nvidia-driver, libcuda1); parallel.device = \"cpu\" does without";
  const optional_library library("libcuda.so.1");
  if (!library) return absent("CUDA", "no driver (libcuda.so.1)", remedy, false);
  int count = 0, version = 0;
  const int code = library.call("cuInit", 0U);
  if (code != 0 || library.call("cuDeviceGetCount", &count) != 0 || library.call("cuDriverGetVersion", &version) != 0)
    return absent("CUDA", fmt::format("the driver refuses to start (code {})", code), remedy, false);
  const auto found = fmt::format("{} device(s), driver for CUDA {}.{}", count, version / 1000, version % 1000 / 10);
  if (count == 0) return absent("CUDA", found, "let a device be seen (CUDA_VISIBLE_DEVICES)", false);
  return {"CUDA", finding_level::ok, false, found, ""};
}

finding check_nccl() {
  const optional_library library("libnccl.so.2");
  int version = 0;
  if (!library || library.call("ncclGetVersion", &version) != 0)
    return absent("NCCL", "libnccl.so.2 is not there",
                  "install NVIDIA's package libnccl2; one GPU or none does without", false);
  return {"NCCL", finding_level::ok, false,
          fmt::format("version {}.{}.{}", version / 10'000, version % 10'000 / 100, version % 100), ""};
}

}  // namespace troupe
