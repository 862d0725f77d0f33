#pragma once

#include <cstdint>
#include <memory>

#include "kernels/core/tensor.hpp"

namespace troupe {

/// How elements that meet are combined. Always in the order of ranks, 0 first, so that a sum has the same bits on every
/// member and on every repeat, whoever comes last. Sums of bf16 are made in f32 and rounded once.
enum class reduction : std::uint8_t { sum, max };

/// One member's end of a group of shards that meet in collectives: the tensor shards of a stage, on one node. Every
/// member calls the same operations in the same order, each on tensors of its own of the same type and size, from one
/// thread. An operation takes its place in the stream order of the member's backend; the host's have completed when
/// they return.
/// Tensors must come from `memory()` (a pool over it).
/// Errors: `collective_aborted` when a member has died, called `abort`, or did not come within the group's deadline
/// (`where` names the operation, the group and, where it is known, that member): from then on every operation of every
/// member returns it, within a bounded time. `invalid_argument`: sizes that do not fit, a tensor of other memory.
class communicator {
public:
  virtual ~communicator() = default;
  virtual std::uint32_t rank() const noexcept = 0;
  virtual std::uint32_t size() const noexcept = 0;
  /// Where a member's tensors come from, so that the others can reach them.
  virtual std::shared_ptr<memory_source> memory() const = 0;

  /// x := the combination of all members' x; f32 or bf16.
  virtual status all_reduce(const tensor& x, reduction how = reduction::sum) = 0;
  /// whole := the parts of all members, one behind the other in the order of ranks. Any type; `whole` holds `size()`
  /// times the elements of `part`. `part` may be this member's place in `whole`.
  virtual status all_gather(const tensor& part, const tensor& whole) = 0;
  /// part := this rank's share of the sum of all members' `whole`, cut in equal parts in the order of ranks; `whole` is
  /// left as it was. f32 or bf16.
  virtual status reduce_scatter(const tensor& whole, const tensor& part) = 0;
  /// x := `root`'s x. Any type.
  virtual status broadcast(const tensor& x, std::uint32_t root) = 0;
  /// Returns when every member has called it.
  virtual status barrier() = 0;

  /// Ends the group: operations that wait, here and at the other members, and all later ones return
  /// `collective_aborted`. Any thread, any number of times; returns at once.
  virtual void abort() noexcept = 0;
};

}  // namespace troupe
