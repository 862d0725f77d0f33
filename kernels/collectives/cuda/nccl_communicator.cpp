#include "kernels/collectives/cuda/nccl_communicator.hpp"

namespace troupe::group {

namespace {

ncclDataType_t type_of(const tensor& t) {
  switch (t.type()) {
    case dtype::f32:
      return ncclFloat32;
    case dtype::bf16:
      return ncclBfloat16;
    case dtype::i32:
      return ncclInt32;
    case dtype::u8:
      break;
  }
  return ncclUint8;
}

bool can_add(const tensor& x) { return x.type() == dtype::f32 || x.type() == dtype::bf16; }

std::size_t count_of(const tensor& t) { return static_cast<std::size_t>(t.elements()); }

// Host memory would fault on the device, which sticks.
bool on_device(const tensor& t) {
  cudaPointerAttributes attributes{};
  return t && cudaPointerGetAttributes(&attributes, t.raw()) == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
}

}  // namespace

result<std::unique_ptr<communicator>> nccl_communicator::join(cuda_backend& ops,
                                                              std::unique_ptr<host_communicator> host) {
  TROUPE_TRY(auto link, nccl_link::make(ops.where().index, ops.stream(), std::move(host)));
  return std::unique_ptr<communicator>(new nccl_communicator(ops.memory(), std::move(link)));
}

error nccl_communicator::refuse(std::string why) {
  abort();
  return invalid(std::move(why));
}

status nccl_communicator::all_reduce(const tensor& x, reduction how) {
  if (!on_device(x) || !can_add(x)) return refuse("all_reduce takes f32 or bf16 on the GPU");
  return link_.enqueue("all_reduce", [&](ncclComm_t link, cudaStream_t stream) {
    return nccl()->all_reduce(x.raw(), x.raw(), count_of(x), type_of(x), how == reduction::sum ? ncclSum : ncclMax,
                              link, stream);
  });
}

status nccl_communicator::all_gather(const tensor& part, const tensor& whole) {
  if (!on_device(part) || !on_device(whole) || whole.type() != part.type() ||
      whole.elements() != part.elements() * size())
    return refuse("all_gather takes a part of one type and a whole of size() times its elements, on the GPU");
  return link_.enqueue("all_gather", [&](ncclComm_t link, cudaStream_t stream) {
    return nccl()->all_gather(part.raw(), whole.raw(), count_of(part), type_of(part), link, stream);
  });
}

status nccl_communicator::reduce_scatter(const tensor& whole, const tensor& part) {
  if (!on_device(part) || !on_device(whole) || !can_add(whole) || whole.type() != part.type() ||
      whole.elements() != part.elements() * size())
    return refuse("reduce_scatter takes f32 or bf16, and a part of one member's share of the whole, on the GPU");
  return link_.enqueue("reduce_scatter", [&](ncclComm_t link, cudaStream_t stream) {
    return nccl()->reduce_scatter(whole.raw(), part.raw(), count_of(part), type_of(part), ncclSum, link, stream);
  });
}

status nccl_communicator::broadcast(const tensor& x, std::uint32_t root) {
  if (!on_device(x) || root >= size()) return refuse("broadcast takes a tensor on the GPU and a root below the size");
  return link_.enqueue("broadcast", [&](ncclComm_t link, cudaStream_t stream) {
    return nccl()->broadcast(x.raw(), x.raw(), count_of(x), type_of(x), static_cast<int>(root), link, stream);
  });
}

}  // namespace troupe::group
