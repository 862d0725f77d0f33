#include "kernels/collectives/cuda/nccl_library.hpp"

#include <fmt/format.h>

#include "kernels/ops/cuda/dynamic_library.hpp"

namespace troupe::group {

namespace {

result<nccl_library> open_library() {
  const auto name = fmt::format("libnccl.so.{}", NCCL_MAJOR);
  TROUPE_TRY(auto opened, dynamic_library::open("NCCL", {name.c_str(), TROUPE_NCCL_LIBRARY}));
  nccl_library f;
  opened.find(f.get_unique_id, "ncclGetUniqueId");
  opened.find(f.init_rank, "ncclCommInitRankConfig");
  opened.find(f.get_async_error, "ncclCommGetAsyncError");
  opened.find(f.finalize, "ncclCommFinalize");
  opened.find(f.destroy, "ncclCommDestroy");
  opened.find(f.abort, "ncclCommAbort");
  opened.find(f.all_reduce, "ncclAllReduce");
  opened.find(f.all_gather, "ncclAllGather");
  opened.find(f.reduce_scatter, "ncclReduceScatter");
  opened.find(f.broadcast, "ncclBroadcast");
  opened.find(f.error_string, "ncclGetErrorString");
  TROUPE_CHECK(opened.complete());
  return f;
}

}  // namespace

const result<nccl_library>& nccl() {
  static const auto opened = open_library();
  return opened;
}

}  // namespace troupe::group
