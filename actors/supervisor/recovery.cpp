#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <bit>

#include "actors/supervisor/conduct.hpp"
#include "kernels/core/clock.hpp"

namespace troupe::conduct {

namespace {

using clock = supervisor_data::clock;

double milliseconds(clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

// Too many deaths: why it is no use to go on; else nothing.
std::optional<std::string> out_of_restarts(supervisor_data& s) {
  const auto now = clock::now();
  std::erase_if(s.deaths, [&](auto t) { return now - t > s.settings->restart_window; });
  s.deaths.push_back(now);
  if (s.deaths.size() <= s.settings->max_restarts) return std::nullopt;
  if (s.settings->max_restarts == 0) return "";
  return fmt::format("{} deaths within {} s, recovery.max_restarts allows {}: ", s.deaths.size(),
                     std::chrono::duration_cast<std::chrono::seconds>(s.settings->restart_window).count(),
                     s.settings->max_restarts);
}

// Ends what still lives of these incarnations; each one's end comes back as `member_gone`.
void end_members(pointer self, const std::vector<std::uint32_t>& ranks) {
  auto& s = self->state;
  for (auto rank : ranks) {
    if (s.settings->processes)
      self->send(s.agent, signal_worker{rank, SIGKILL});
    else if (s.members[rank].shard)
      self->send(s.members[rank].shard, stop_shard{false});
  }
}

// Those who live on learn who does not.
void inform_others(pointer self, const std::vector<std::uint32_t>& lost) {
  auto& s = self->state;
  peers_lost news{s.places.epoch(), {}};
  for (auto r : lost) news.shards.push_back(shard_of(s, r));
  for (std::uint32_t r = 0; r < s.members.size(); ++r)
    if (s.places.where(r) == standing::running) self->send(s.members[r].shard, news);
}

// No copy of somebody's state is left: everybody begins again with the first step, whose state follows from the seed.
void begin_again(pointer self) {
  auto& s = self->state;
  tell(self, event_kind::down,
       fmt::format("no copy of a lost shard's state is left: all shards begin again at step 0 (was {})",
                   s.judge.next_step()));
  s.judge.rewind(0);
  const auto to_end = s.places.lose_all();
  for (auto rank : to_end) s.judge.forget(rank);
  if (s.under_way) s.under_way->from_scratch = true;
  end_members(self, to_end);
}

}  // namespace

void lose(pointer self, std::uint32_t rank, const std::string& cause) {
  auto& s = self->state;
  if (s.where == phase::stopping || s.where == phase::over) return;
  const auto to_end = s.places.lose(rank);
  if (to_end.empty()) return;  // known already
  const auto sentence =
      culprit_sentence(shard_of(s, rank), s.settings->node, s.members[rank].pid, cause, s.cells[rank]);
  tell(self, event_kind::down, sentence, rank);
  if (const auto why = out_of_restarts(s)) return give_up(self, rank, sentence, *why);
  if (!s.under_way) s.under_way = supervisor_data::recovery{clock::now(), {}, {}, {}, {}, false};
  for (auto r : to_end) {
    s.judge.forget(r);
    if (std::find(s.under_way->ranks.begin(), s.under_way->ranks.end(), r) == s.under_way->ranks.end())
      s.under_way->ranks.push_back(r);
  }
  end_members(self, to_end);
  inform_others(self, to_end);
}

void member_gone(pointer self, std::uint32_t rank) {
  auto& s = self->state;
  s.places.gone(rank);
  auto& m = s.members[rank];
  m = {s.settings->processes ? worker_actor() : m.worker, {}, {}, 1, 0, s.where == phase::stopping, 0, {}};
  if (s.where == phase::stopping) return finish_if_over(self);
  launch_members(self);
}

void launch_members(pointer self) {
  auto& s = self->state;
  if (s.where == phase::stopping || s.where == phase::over) return;
  for (auto rank : s.places.launchable()) {
    s.places.launch(rank);
    s.members[rank].launched = clock::now();
    s.cells[rank].set(progress_cell::phase::starting, 0, 0);
    if (s.settings->processes)
      self->send(s.agent, start_worker{rank});
    else
      assign(self, rank);
  }
  if (s.under_way) s.under_way->launched = clock::now();
}

void assign(pointer self, std::uint32_t rank) {
  auto& s = self->state;
  self->send(s.members[rank].worker, worker_assignment{s.places.epoch_of(rank),
                                                       s.places.incarnation(rank),
                                                       s.judge.next_step(),
                                                       s.settings->config,
                                                       {s.settings->split.begin(), s.settings->split.end()},
                                                       s.settings->extents.stages,
                                                       s.settings->extents.replicas,
                                                       s.settings->extents.shards,
                                                       {shard_of(s, rank)}});
}

void introduce_if_complete(pointer self) {
  auto& s = self->state;
  if (s.where == phase::stopping || s.where == phase::over || !s.places.may_introduce()) return;
  const bool take_state = s.judge.next_step() > 0;
  if (take_state && !s.places.restorable()) return begin_again(self);
  connect_peers everyone{s.places.epoch(), {}};
  for (std::uint32_t r = 0; r < s.members.size(); ++r)
    everyone.peers.push_back({shard_of(s, r), s.places.incarnation(r), s.members[r].port,
                              take_state && s.places.where(r) == standing::ready, s.members[r].address});
  s.places.introduce();
  s.suspicions.clear();
  for (const auto& m : s.members) self->send(m.shard, everyone);
  if (s.under_way) s.under_way->introduced = clock::now();
}

void member_joined(pointer self, std::uint32_t rank) {
  auto& s = self->state;
  const bool again = s.places.incarnation(rank) > 1;
  s.places.running(rank);
  if (again) {
    ++s.restarts;
    tell(self, event_kind::restarted,
         fmt::format("shard {} on {} (pid {}) is back as incarnation {} at step {}", to_string(shard_of(s, rank)),
                     s.settings->node, s.members[rank].pid, s.places.incarnation(rank), s.judge.next_step()),
         rank);
  }
  if (!s.places.all_running()) return;
  if (s.where == phase::starting) {
    s.where = phase::running;
    s.judge.begin(monotonic_ns());
  }
  if (s.under_way) s.under_way->restored = clock::now();
  grant(self);
}

void tell_recovery(pointer self) {
  auto& s = self->state;
  if (!s.under_way || !s.places.all_running()) return;
  const auto& u = *s.under_way;
  std::vector<std::string> names;
  for (auto r : u.ranks) names.push_back(to_string(shard_of(s, r)));
  tell(self, event_kind::replayed,
       fmt::format("{} {} {:.0f} ms after the loss was known: {:.0f} ms to end it, {:.0f} ms to start it again, "
                   "{:.0f} ms to restore it, {:.0f} ms to the next commit",
                   fmt::join(names, ", "), u.from_scratch ? "and all others are where they were" : "recovered",
                   milliseconds(clock::now() - u.lost), milliseconds(u.launched - u.lost),
                   milliseconds(u.introduced - u.launched), milliseconds(u.restored - u.introduced),
                   milliseconds(clock::now() - u.restored)),
       u.ranks.front());
  s.under_way.reset();
}

void grant(pointer self) {
  for (const auto& m : self->state.members) self->send(m.shard, step_grant{self->state.judge.granted()});
}

}  // namespace troupe::conduct
