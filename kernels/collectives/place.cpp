#include "kernels/collectives/place.hpp"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <thread>

namespace troupe::group {

std::uint32_t* futex_of(std::atomic<std::uint64_t>& counter) noexcept {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  return reinterpret_cast<std::uint32_t*>(&counter);
}

void wake_all(member& m) noexcept {
  ::syscall(SYS_futex, futex_of(m.arrived), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void place::end_epochs(state& shared, std::uint64_t below, ending why, std::uint32_t culprit) noexcept {
  const auto ours = below << 32 | static_cast<std::uint64_t>(why) << 8 | culprit;
  auto seen = shared.over.load();
  while (seen >> 32 < below && !shared.over.compare_exchange_weak(seen, ours)) {
  }
  // Who falls asleep just now misses this and looks again within a slice.
  for (std::uint32_t r = 0; r < shared.size; ++r) wake_all(shared.members[r]);
}

bool place::go(phase from, phase to) noexcept {
  auto expected = me_.now(from).word();
  if (!word().compare_exchange_strong(expected, me_.now(to).word())) return false;  // a later epoch has it
  if (!over()) return true;
  word().store(me_.now(from).word(), std::memory_order_seq_cst);
  return false;
}

result<place> place::take(state& shared, const host_group_settings& settings, process_watch* processes) {
  const auto name =
      fmt::format("joining as tensor shard {} of {}, epoch {}", settings.rank, settings.size, settings.epoch);
  place mine(shared, settings.rank, this_process(settings.epoch));
  auto& slot = shared.members[settings.rank];
  if (settings.epoch > 0) end_epochs(shared, settings.epoch, ending::superseded, settings.rank);
  if (mine.over()) return error{errc::collective_aborted, fmt::format("{}: that epoch is over", name), 0};
  const auto give_up_at = std::chrono::steady_clock::now() + settings.deadline;
  for (;;) {
    auto seen = slot.held_by.load();
    const auto before = holder::of(seen);
    if (before.pid != 0 && before.epoch == settings.epoch)
      return invalid(fmt::format("{}: it has joined before", name));
    if (before.pid != 0 && before.epoch > settings.epoch)
      return error{errc::collective_aborted, fmt::format("{}: that epoch is over", name), 0};
    if (before.doing == phase::outside || (processes && processes->has_ended(settings.rank, before))) {
      if (slot.held_by.compare_exchange_strong(seen, mine.me_.now(phase::inside).word())) break;
    } else if (std::chrono::steady_clock::now() > give_up_at) {
      return error{errc::timed_out,
                   fmt::format("{}: process {} holds its place and is still inside an operation of epoch {}", name,
                               before.pid, before.epoch),
                   0};
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  slot.arrived.store(std::uint64_t{settings.epoch} << 32, std::memory_order_seq_cst);
  mine.leave();
  return mine;
}

}  // namespace troupe::group
