#pragma once

#include "kernels/collectives/host_group.hpp"
#include "kernels/collectives/process_watch.hpp"

namespace troupe::group {

/// A member's hold of its place in the shared state.
///
/// Two rules make it safe to leave a broken group. A member of an epoch that is over enters no operation and starts to
/// touch nobody's tensors: each member first writes what it is about to do, then looks whether its epoch is over, while
/// whoever ends an epoch first writes that, then looks who is touching (both in one total order). And a place passes to
/// a later epoch only while its holder is outside of operations, or dead.
class place {
public:
  /// Ends all earlier epochs, then waits for an earlier holder of this rank to be outside or dead.
  /// Errors: `invalid_argument` (the rank has joined this epoch before), `collective_aborted` (the epoch is over),
  /// `timed_out` (an earlier holder, alive, stays inside an operation past the deadline: a stopped process).
  static result<place> take(state& shared, const host_group_settings& settings, process_watch* processes);

  /// Each answers whether the epoch goes on; if not, the phase is as it was.
  bool enter() noexcept { return go(phase::outside, phase::inside); }
  bool touch() noexcept { return go(phase::inside, phase::touching); }
  /// Back, always.
  void rest() noexcept { word().store(me_.now(phase::inside).word(), std::memory_order_seq_cst); }
  void leave() noexcept { word().store(me_.now(phase::outside).word(), std::memory_order_seq_cst); }

  bool over() const noexcept { return shared_->over.load(std::memory_order_seq_cst) >> 32 > me_.epoch; }
  /// Ends this place's epoch, unless it is over already.
  void end(ending why, std::uint32_t culprit) noexcept {
    end_epochs(*shared_, me_.epoch + std::uint64_t{1}, why, culprit);
  }

private:
  place(state& shared, std::uint32_t rank, holder me) : shared_(&shared), rank_(rank), me_(me) {}
  static void end_epochs(state& shared, std::uint64_t below, ending why, std::uint32_t culprit) noexcept;
  std::atomic<std::uint64_t>& word() const noexcept { return shared_->members[rank_].held_by; }
  bool go(phase from, phase to) noexcept;

  state* shared_;
  std::uint32_t rank_;
  holder me_;
};

/// The counter's low half, which the kernel compares.
std::uint32_t* futex_of(std::atomic<std::uint64_t>& counter) noexcept;
void wake_all(member& m) noexcept;

}  // namespace troupe::group
