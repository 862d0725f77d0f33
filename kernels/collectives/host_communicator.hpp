#pragma once

#include <memory>
#include <string>

#include "kernels/collectives/meeting.hpp"

namespace troupe::group {

/// Collectives of host memory, in one pass over the members' own tensors: each member does its slice of the elements
/// for all of them, between two meetings.
class host_communicator final : public communicator {
public:
  /// `keep` owns the shared state and the members' memory. With threads `arenas` is null and addresses are addresses.
  /// Errors: as `place::take`.
  static result<std::unique_ptr<communicator>> join(std::shared_ptr<void> keep, state& shared, std::byte* arenas,
                                                    std::shared_ptr<memory_source> memory,
                                                    const host_group_settings& settings);
  ~host_communicator() override { abort(); }  // nobody shall wait for a member that has gone

  std::uint32_t rank() const noexcept override { return meeting_->settings().rank; }
  std::uint32_t size() const noexcept override { return meeting_->settings().size; }
  std::shared_ptr<memory_source> memory() const override { return memory_; }
  status all_reduce(const tensor& x, reduction how) override;
  status all_gather(const tensor& part, const tensor& whole) override;
  status reduce_scatter(const tensor& whole, const tensor& part) override;
  status broadcast(const tensor& x, std::uint32_t root) override;
  status barrier() override;
  void abort() noexcept override { meeting_->end(ending::left, rank()); }

  /// Whether the group goes on: see `meeting`.
  status going() const { return meeting_->going(); }
  status look() { return meeting_->look(); }
  const host_group_settings& settings() const noexcept { return meeting_->settings(); }

private:
  host_communicator(std::shared_ptr<void> keep, std::byte* arenas, std::size_t arena_bytes,
                    std::shared_ptr<memory_source> memory, std::unique_ptr<meeting> members)
      : keep_(std::move(keep)),
        arenas_(arenas),
        arena_bytes_(arena_bytes),
        memory_(std::move(memory)),
        meeting_(std::move(members)) {}

  /// Meets the others, shows them `shown`, and does `work`, which answers whether it was done to the end.
  template <class Work>
  status together(request wanted, const tensor& shown, Work work);
  /// Calls run(first, count) for blocks of [first, first + count); stops where the group ends: then false.
  template <class Run>
  bool in_blocks(std::size_t first, std::size_t count, std::size_t block, Run run) const;
  bool copy(std::byte* to, const std::byte* from, std::size_t bytes) const;
  error refuse(std::string why);
  std::byte* shown_by(std::uint32_t rank) const noexcept;
  result<std::uint64_t> shared_address(const tensor& t) const;

  std::shared_ptr<void> keep_;
  std::byte* arenas_;
  std::size_t arena_bytes_;
  std::shared_ptr<memory_source> memory_;
  std::unique_ptr<meeting> meeting_;
};

}  // namespace troupe::group
