#include "kernels/collectives/nccl_group.hpp"

#ifdef TROUPE_WITH_NCCL
#include "kernels/collectives/cuda/nccl_communicator.hpp"
#endif

namespace troupe {

result<std::unique_ptr<communicator>> join_nccl_group([[maybe_unused]] backend& ops,
                                                      [[maybe_unused]] std::unique_ptr<communicator> host) {
#ifdef TROUPE_WITH_NCCL
  auto* gpu = dynamic_cast<cuda_backend*>(&ops);
  if (!gpu) return invalid("joining an NCCL group: the backend is not of a GPU");
  if (!dynamic_cast<group::host_communicator*>(host.get()))
    return invalid("joining an NCCL group: it needs a host group of the same members");
  return group::nccl_communicator::join(
      *gpu, std::unique_ptr<group::host_communicator>(static_cast<group::host_communicator*>(host.release())));
#else
  return invalid("this Troupe was built without NCCL (it needs the CUDA toolkit and nccl.h)");
#endif
}

}  // namespace troupe
