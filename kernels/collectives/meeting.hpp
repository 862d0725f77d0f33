#pragma once

#include <chrono>

#include "kernels/collectives/place.hpp"

namespace troupe::group {

/// How members meet for an operation: on nothing that a dead, slow or foreign member could hold for ever. Each
/// operation is `enter`, then, where members use each other's tensors, `touch`, the work, and `finish`.
class meeting {
public:
  /// With processes, the members are watched by pidfd.
  /// Errors: as `place::take`.
  static result<std::unique_ptr<meeting>> join(state& shared, const host_group_settings& settings, bool processes);

  /// Publishes `wanted` and returns when every member has entered too, all wanting the same.
  /// Errors: `invalid_argument` (they do not: at every member, with what each wanted), `collective_aborted`.
  status enter(const request& wanted);
  /// From here the others' tensors may be used. False: the group is over, `retreat`.
  bool touch() noexcept { return place_.touch(); }
  bool over() const noexcept { return place_.over(); }
  /// Returns when every member has done its part: an operation finishes at all members or at none, but where a later
  /// epoch begins before a member has seen the end of it.
  status finish();
  /// Gives an operation up; returns when nobody uses this member's tensors any longer, so that they may be freed. (But
  /// for a process that has been stopped: past the deadline it is left behind, with a block of writes to come.)
  error retreat();
  /// After an operation without `touch`.
  void leave() noexcept { place_.leave(); }

  /// Whether the group goes on, without waiting. Any thread.
  status going() const { return over() ? status(aborted("going on")) : status(); }
  /// The same after a look for deaths. Another thread than the operations' may call it, always the same one.
  status look();

  void end(ending why, std::uint32_t culprit) noexcept { place_.end(why, culprit); }
  const request& wanted_by(std::uint32_t rank) const noexcept { return shared_.members[rank].wanted[turn_]; }
  const host_group_settings& settings() const noexcept { return settings_; }

private:
  meeting(state& shared, const host_group_settings& settings, std::unique_ptr<process_watch> processes, place own);
  status arrive();
  status agree();
  bool has_come(std::uint32_t rank) const noexcept {
    return shared_.members[rank].arrived.load(std::memory_order_acquire) >= arrived_;
  }
  bool all_have_come() const noexcept;
  bool wait_for(std::uint32_t rank, std::chrono::steady_clock::time_point give_up_at);
  /// Until `rank` moves on, the epoch ends, a slice of time has passed, or a signal came.
  void sleep_on(std::uint32_t rank);
  void look_for_deaths(process_watch* processes);
  bool is_touching(std::uint32_t rank);
  error aborted() const { return aborted(to_string(doing_)); }
  error aborted(std::string_view doing) const;

  state& shared_;
  host_group_settings settings_;
  std::unique_ptr<process_watch> processes_, onlooker_;  // null with threads; the second one is `look`'s
  place place_;
  int pauses_;
  std::uint64_t arrived_;
  operation doing_ = operation::barrier;
  std::uint32_t turn_ = 0;
};

}  // namespace troupe::group
