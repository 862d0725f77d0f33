#include "kernels/collectives/meeting.hpp"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <thread>

namespace troupe::group {

namespace {

using clock = std::chrono::steady_clock;

// A sleeper looks for deaths and its deadline this often.
constexpr std::chrono::milliseconds slice{50};

// Who waits first stays on its core for some microseconds, in the hope that the other runs on one of its own; then it
// makes room for the other, should they share one, some tens of microseconds; then it sleeps.
constexpr int pauses = 100, yields = 100;

int usable_cores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

void pause_briefly() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

result<std::unique_ptr<meeting>> meeting::join(state& shared, const host_group_settings& settings, bool processes) {
  auto watch = processes ? std::make_unique<process_watch>(settings.size) : nullptr;
  TROUPE_TRY(auto own, place::take(shared, settings, watch.get()));
  return std::unique_ptr<meeting>(new meeting(shared, settings, std::move(watch), own));
}

meeting::meeting(state& shared, const host_group_settings& settings, std::unique_ptr<process_watch> processes,
                 place own)
    : shared_(shared),
      settings_(settings),
      processes_(std::move(processes)),
      onlooker_(processes_ ? std::make_unique<process_watch>(settings.size) : nullptr),
      place_(own),
      pauses_(usable_cores() >= static_cast<int>(settings.size) ? pauses : 0),
      arrived_(std::uint64_t{settings.epoch} << 32) {}

status meeting::enter(const request& wanted) {
  doing_ = wanted.what;
  if (!place_.enter()) return aborted();
  turn_ ^= 1U;
  shared_.members[settings_.rank].wanted[turn_] = wanted;
  if (auto come = arrive(); !come) return retreat();
  if (auto agreed = agree(); !agreed) {
    end(ending::disagreed, settings_.rank);
    place_.leave();
    return agreed;
  }
  return {};
}

status meeting::finish() {
  place_.rest();
  if (auto come = arrive(); !come) return retreat();
  place_.leave();
  return {};
}

error meeting::retreat() {
  place_.rest();
  const auto give_up_at = clock::now() + settings_.deadline;
  for (std::uint32_t r = 0; r < settings_.size; ++r)
    for (int looks = 0; r != settings_.rank && is_touching(r) && clock::now() < give_up_at; ++looks)
      looks < 100 ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::milliseconds(1));
  place_.leave();
  return aborted();
}

bool meeting::is_touching(std::uint32_t rank) {
  const auto who = holder::of(shared_.members[rank].held_by.load(std::memory_order_seq_cst));
  return who.epoch == settings_.epoch && who.doing == phase::touching &&
         !(processes_ && processes_->has_ended(rank, who));
}

status meeting::agree() {
  bool agreed = true;
  for (std::uint32_t r = 0; r < settings_.size; ++r) agreed = agreed && same(wanted_by(r), wanted_by(settings_.rank));
  if (agreed) return {};
  std::string text = "tensor shards disagree:";
  for (std::uint32_t r = 0; r < settings_.size; ++r)
    text += fmt::format("{} {} called {}", r == 0 ? "" : ",", r, to_string(wanted_by(r)));
  return invalid(std::move(text));
}

bool meeting::all_have_come() const noexcept {
  for (std::uint32_t r = 0; r < settings_.size; ++r)
    if (!has_come(r)) return false;
  return true;
}

status meeting::arrive() {
  auto& me = shared_.members[settings_.rank];
  me.arrived.store(++arrived_, std::memory_order_seq_cst);
  if (me.sleepers.load(std::memory_order_seq_cst) != 0) wake_all(me);
  const auto give_up_at = clock::now() + settings_.deadline;
  bool come = true;
  for (std::uint32_t i = 1; come && i < settings_.size; ++i)
    come = wait_for((settings_.rank + i) % settings_.size, give_up_at);
  // Looked at once more after the end was seen: who ends the group may have done so because its last operation was
  // complete, and then it is so for all.
  if (!come && !all_have_come()) return aborted();
  for (std::uint32_t r = 0; r < settings_.size; ++r)
    if (shared_.members[r].arrived.load(std::memory_order_acquire) >> 32 != settings_.epoch) return aborted();
  return {};
}

bool meeting::wait_for(std::uint32_t rank, clock::time_point give_up_at) {
  for (int i = 0; i < pauses_ && !has_come(rank); ++i) pause_briefly();
  for (int i = 0; i < yields && !has_come(rank); ++i) ::sched_yield();
  auto look_at = clock::now() + slice;
  while (!has_come(rank)) {
    if (over()) return false;
    sleep_on(rank);
    const auto now = clock::now();  // not whether the sleep lasted: signals may cut each one short
    if (now < look_at) continue;
    look_at = now + slice;
    look_for_deaths(processes_.get());
    if (now > give_up_at && !has_come(rank)) end(ending::late, rank);
  }
  return true;
}

void meeting::sleep_on(std::uint32_t rank) {
  auto& m = shared_.members[rank];
  m.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const auto seen = m.arrived.load(std::memory_order_seq_cst);
  if (seen < arrived_ && !over()) {
    const timespec time{0, std::chrono::nanoseconds(slice).count()};
    ::syscall(SYS_futex, futex_of(m.arrived), FUTEX_WAIT, static_cast<std::uint32_t>(seen), &time, nullptr, 0);
  }
  m.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void meeting::look_for_deaths(process_watch* processes) {
  if (!processes) return;
  for (std::uint32_t r = 0; r < settings_.size; ++r) {
    const auto who = holder::of(shared_.members[r].held_by.load(std::memory_order_acquire));
    if (who.epoch == settings_.epoch && processes->has_ended(r, who)) end(ending::died, r);
  }
}

status meeting::look() {
  look_for_deaths(onlooker_.get());
  return going();
}

error meeting::aborted(std::string_view doing) const {
  const auto over = shared_.over.load();
  const auto culprit = static_cast<std::uint32_t>(over & 0xFF);
  const bool own = culprit == settings_.rank;
  std::string why = "a later epoch has begun";
  if (over >> 32 == settings_.epoch + std::uint64_t{1}) switch (static_cast<ending>(over >> 8 & 0xFF)) {
      case ending::left:
        why = own ? "the group was aborted here" : fmt::format("tensor shard {} has left the group", culprit);
        break;
      case ending::died:
        why = fmt::format("the process of tensor shard {} has ended", culprit);
        break;
      case ending::late:
        why = fmt::format("tensor shard {} did not come within {} ms", culprit, settings_.deadline.count());
        break;
      case ending::disagreed:
        why = "the tensor shards have disagreed";
        break;
      case ending::superseded:
        break;
    }
  return {errc::collective_aborted,
          fmt::format("{}, tensor shard {} of {}, epoch {}: {}", doing, settings_.rank, settings_.size, settings_.epoch,
                      why),
          0};
}

}  // namespace troupe::group
