// Stands in for libnccl.so.2 where no GPU is: the host's side of its behaviour. A fake cannot show what kernels do;
// tests/gpu has that.

#include "fake_nccl.hpp"

#include <nccl.h>

#include <chrono>
#include <cstring>
#include <thread>

struct ncclComm {
  std::atomic<bool> finalized{false};
};

extern "C" {
fake_nccl_state fake_nccl;
}

namespace {

using way = fake_nccl_state::way;

bool asked(way how) { return fake_nccl.behaves == how; }

ncclResult_t collective() {
  if (asked(way::call_fails)) return ncclInvalidArgument;
  return ncclInProgress;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 7, sizeof *id);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* link, int, ncclUniqueId id, int, ncclConfig_t* config) {
  if (asked(way::init_fails) || id.internal[0] != 7 || config->blocking != 0) return ncclInvalidUsage;
  *link = new ncclComm;
  ++fake_nccl.living;
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* now) {
  *now = asked(way::remote_error) ? ncclRemoteError : asked(way::never_begins) ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t link) {
  link->finalized = true;
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t link) {
  if (!link->finalized) return ncclInvalidUsage;
  delete link;
  --fake_nccl.living;
  ++fake_nccl.destroys;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t link) {
  while (asked(way::abort_hangs)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  delete link;
  --fake_nccl.living;
  ++fake_nccl.aborts;
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t) {
  return collective();
}
ncclResult_t ncclAllGather(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t) {
  return collective();
}
ncclResult_t ncclReduceScatter(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t) {
  return collective();
}
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
  return collective();
}
const char* ncclGetErrorString(ncclResult_t code) {
  return code == ncclRemoteError ? "remote error" : code == ncclInvalidArgument ? "invalid argument" : "invalid usage";
}

}  // extern "C"
