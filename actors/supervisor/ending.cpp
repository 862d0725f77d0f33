#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "actors/supervisor/conduct.hpp"

namespace troupe::conduct {

static void signal_all(pointer self, int signal) {
  if (self->state.agent) self->send(self->state.agent, signal_workers{signal});
}

void finish_if_over(pointer self) {
  auto& s = self->state;
  if (s.where != phase::stopping ||
      !std::all_of(s.members.begin(), s.members.end(), [](const auto& m) { return m.stopped; }))
    return;
  for (auto& m : s.members)
    if (m.worker) self->send(m.worker, end_worker{});
  s.where = phase::over;
  s.finished(s.outcome);
  self->quit();
}

void stop(pointer self, run_outcome outcome, bool drain) {
  auto& s = self->state;
  if (s.where == phase::stopping || s.where == phase::over) return;
  s.outcome = std::move(outcome);
  s.where = phase::stopping;
  s.phase_began = supervisor_data::clock::now();
  for (std::uint32_t rank = 0; rank < s.members.size(); ++rank) {
    auto& m = s.members[rank];
    const auto where = s.places.where(rank);
    if (m.shard && where != standing::away) self->send(m.shard, stop_shard{drain});
    // A process is over when its pidfd says so; a shard in this process when it has said so itself.
    m.stopped = where == standing::away;
  }
  if (!drain) signal_all(self, SIGTERM);
  finish_if_over(self);
}

void give_up(pointer self, std::uint32_t rank, const std::string& sentence, const std::string& why) {
  auto& s = self->state;
  if (s.where == phase::stopping || s.where == phase::over) return;
  tell(self, event_kind::gave_up, fmt::format("{}the run ends after {} committed steps", why, s.judge.next_step()),
       rank);
  signal_all(self, SIGKILL);
  s.killed = true;
  stop(self, {3, sentence, {}}, false);
}

void refuse_start(pointer self, const std::string& text) {
  tell(self, event_kind::gave_up, text);
  signal_all(self, SIGKILL);
  self->state.killed = true;
  stop(self, {2, text, {}}, false);
}

}  // namespace troupe::conduct
