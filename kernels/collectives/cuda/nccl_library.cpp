#include "kernels/collectives/cuda/nccl_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <type_traits>

namespace troupe::group {

namespace {

result<nccl_library> open_library() {
  const auto name = fmt::format("libnccl.so.{}", NCCL_MAJOR);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays open: its threads may live to the end
  if (!library) library = dlopen(TROUPE_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library) return invalid(fmt::format("loading NCCL: {}", dlerror()));
  nccl_library f;
  bool complete = true;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    complete = complete && function != nullptr;
  };
  find(f.get_unique_id, "ncclGetUniqueId");
  find(f.init_rank, "ncclCommInitRankConfig");
  find(f.get_async_error, "ncclCommGetAsyncError");
  find(f.finalize, "ncclCommFinalize");
  find(f.destroy, "ncclCommDestroy");
  find(f.abort, "ncclCommAbort");
  find(f.all_reduce, "ncclAllReduce");
  find(f.all_gather, "ncclAllGather");
  find(f.reduce_scatter, "ncclReduceScatter");
  find(f.broadcast, "ncclBroadcast");
  find(f.error_string, "ncclGetErrorString");
  if (!complete) return invalid(fmt::format("loading NCCL: {} lacks a function that Troupe needs", name));
  return f;
}

}  // namespace

const result<nccl_library>& nccl() {
  static const auto opened = open_library();
  return opened;
}

}  // namespace troupe::group
