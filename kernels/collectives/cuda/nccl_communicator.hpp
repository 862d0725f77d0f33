#pragma once

#include "kernels/collectives/cuda/nccl_link.hpp"
#include "kernels/ops/cuda/cuda_backend.hpp"

namespace troupe::group {

/// See `join_nccl_group`.
class nccl_communicator final : public communicator {
public:
  static result<std::unique_ptr<communicator>> join(cuda_backend& ops, std::unique_ptr<host_communicator> host);

  std::uint32_t rank() const noexcept override { return link_.host().rank(); }
  std::uint32_t size() const noexcept override { return link_.host().size(); }
  std::shared_ptr<memory_source> memory() const override { return memory_; }
  status all_reduce(const tensor& x, reduction how) override;
  status all_gather(const tensor& part, const tensor& whole) override;
  status reduce_scatter(const tensor& whole, const tensor& part) override;
  status broadcast(const tensor& x, std::uint32_t root) override;
  status barrier() override { return link_.host().barrier(); }
  void abort() noexcept override { link_.abort(); }

private:
  nccl_communicator(std::shared_ptr<memory_source> memory, nccl_link link)
      : memory_(std::move(memory)), link_(std::move(link)) {}
  /// A member that cannot go on ends the group, so that the others do not wait for it.
  error refuse(std::string why);

  std::shared_ptr<memory_source> memory_;
  nccl_link link_;
};

}  // namespace troupe::group
