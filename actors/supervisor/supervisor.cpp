#include "actors/supervisor/supervisor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <bit>

#include "actors/node_agent/node_agent.hpp"
#include "actors/supervisor/conduct.hpp"
#include "kernels/core/clock.hpp"

namespace troupe {

namespace conduct {

shard_id shard_of(const supervisor_data& s, std::uint32_t rank) { return s.settings->extents.shard_at(rank); }

std::optional<std::uint32_t> rank_of(const supervisor_data& s, shard_id id, std::uint32_t incarnation) {
  if (!s.settings->extents.holds(id)) return std::nullopt;
  const auto rank = s.settings->extents.rank_of(id);
  if (s.places.incarnation(rank) != incarnation) return std::nullopt;
  return rank;
}

void tell(pointer self, event_kind kind, std::string text, std::optional<std::uint32_t> about) {
  const auto& s = self->state;
  run_event e{kind,
              std::chrono::system_clock::now(),
              about ? shard_of(s, *about) : shard_id{},
              about.has_value(),
              about ? s.places.incarnation(*about) : 0,
              std::move(text)};
  s.listener->event(e);
}

}  // namespace conduct

using namespace conduct;

namespace {

// Such a failure of one shard follows from another's, whose own news may still be on its way.
bool tells_of_another(errc code) { return code == errc::collective_aborted; }

shard_step from_wire(const step_done& d) {
  const auto record = [](const timed_action& a) {
    return action_record{{static_cast<pass>(a.what), a.micro_batch, a.chunk}, a.start_ns, a.end_ns};
  };
  shard_step part{d.step, {}, {}, {d.shard, {}, record(d.update)}};
  for (auto bits : d.loss_bits) part.losses.push_back(std::bit_cast<float>(bits));
  for (const auto& n : d.norms) part.norms.push_back({n.parameter, std::bit_cast<double>(n.squared_bits)});
  for (const auto& a : d.actions) part.timeline.actions.push_back(record(a));
  return part;
}

void take_step(pointer self, const step_done& d) {
  auto& s = self->state;
  const auto rank = rank_of(s, d.shard, d.incarnation);
  // The last word of a shard that is lost by now does not count: its next incarnation will say it again.
  if (!rank || s.where != phase::running || s.places.where(*rank) != standing::running) return;
  auto committed = s.judge.take(d.shard, from_wire(d), monotonic_ns());
  if (!committed) return;
  const auto& u = committed->update;
  for (const auto& m : s.members)
    self->send(m.shard, step_commit{u.step, std::bit_cast<std::uint32_t>(u.learning_rate),
                                    std::bit_cast<std::uint32_t>(u.gradient_scale)});
  committed->report.restarts = s.restarts;
  if (u.step >= s.told_steps) s.listener->step_committed(committed->report);
  s.told_steps = std::max(s.told_steps, u.step + 1);
  tell_recovery(self);
  if (!s.judge.all_committed()) return grant(self);
  tell(self, event_kind::finished, fmt::format("all {} steps committed", s.settings->steps));
  stop(self, {0, "done", {}}, true);
}

// Who has not been built yet, for a sentence.
std::vector<std::uint32_t> not_ready(const supervisor_data& s) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t r = 0; r < s.members.size(); ++r)
    if (s.places.where(r) == standing::launching) ranks.push_back(r);
  return ranks;
}

void look_for_late_starters(pointer self) {
  auto& s = self->state;
  const auto late = not_ready(s);
  if (late.empty() || supervisor_data::clock::now() - s.phase_began <= s.settings->start_timeout) return;
  std::vector<std::string> names;
  for (auto r : late) names.push_back(to_string(shard_of(s, r)));
  const auto cause =
      fmt::format("not ready within {} ms (missing: {})", s.settings->start_timeout.count(), fmt::join(names, ", "));
  const auto sentence = culprit_sentence(shard_of(s, late[0]), s.settings->node, 0, cause, s.cells[late[0]]);
  tell(self, event_kind::down, sentence, late[0]);
  give_up(self, late[0], sentence, "");
}

void look_for_signs_of_life(pointer self) {
  auto& s = self->state;
  ++s.pings;
  for (std::uint32_t r = 0; r < s.members.size(); ++r) {
    const auto& m = s.members[r];
    if (!m.worker || s.places.where(r) == standing::ending) continue;
    if (m.answered_ping + 10 < s.pings) {
      lose(self, r, fmt::format("gave no sign of life for {} ms", 10 * s.settings->heartbeat.count()));
      continue;
    }
    self->send(m.worker, ping{s.pings});
  }
}

// A member on its way back has as long as one at the start.
void look_for_late_replacements(pointer self) {
  auto& s = self->state;
  for (std::uint32_t r = 0; r < s.members.size(); ++r) {
    const auto where = s.places.where(r);
    const bool on_its_way = where == standing::launching || where == standing::joining;
    if (on_its_way && supervisor_data::clock::now() - s.members[r].launched > s.settings->start_timeout)
      lose(self, r, fmt::format("was not back within {} ms", s.settings->start_timeout.count()));
  }
}

void look_at_suspicions(pointer self) {
  auto due = std::vector<supervisor_data::suspicion>();
  for (auto& x : self->state.suspicions)
    if (x.ticks_left-- == 0) due.push_back(x);
  for (const auto& x : due) lose(self, x.suspect, x.text + ";");
}

void look_at_deadlines(pointer self) {
  auto& s = self->state;
  if (s.where == phase::over) return;
  if (s.where == phase::starting) look_for_late_starters(self);
  if (s.where == phase::running) {
    if (s.places.all_running()) look_at_suspicions(self);
    look_for_late_replacements(self);
  }
  if (s.settings->processes && s.where != phase::stopping) look_for_signs_of_life(self);
  const auto waited = supervisor_data::clock::now() - s.phase_began;
  if (s.where == phase::stopping && s.settings->processes && waited > s.settings->grace && !s.killed) {
    s.killed = true;
    self->send(s.agent, signal_workers{SIGKILL});
  }
  self->delayed_send(self, s.settings->heartbeat, supervisor_tick{});
}

void take_joined_worker(pointer self, const worker_joined& joined) {
  auto& s = self->state;
  if (joined.key != s.settings->run_key || s.where == phase::stopping || s.where == phase::over) return;
  const auto join = [&](std::uint32_t rank) {
    auto& m = s.members[rank];
    m.worker = joined.who;
    m.pid = joined.pid;
    m.answered_ping = s.pings;
    assign(self, rank);
  };
  if (!s.settings->processes) {
    for (std::uint32_t rank = 0; rank < s.members.size(); ++rank) {
      s.places.launch(rank);
      s.members[rank].launched = supervisor_data::clock::now();
      join(rank);
    }
  } else if (joined.worker < s.members.size() && !s.members[joined.worker].worker &&
             s.places.where(joined.worker) == standing::launching) {
    join(joined.worker);
  }
}

void take_ready(pointer self, const shard_ready& r) {
  auto& s = self->state;
  const auto rank = rank_of(s, r.shard, r.incarnation);
  if (!rank || s.places.where(*rank) != standing::launching || s.where == phase::stopping) {
    self->send(r.who, stop_shard{false});
    if (rank) s.members[*rank].shard = r.who;
    return;
  }
  auto& m = s.members[*rank];
  m.shard = r.who;
  m.address = r.address;
  s.places.ready(*rank);
  if (s.where == phase::starting)
    tell(self, event_kind::started,
         fmt::format("shard {} on {} (pid {}) is ready", to_string(r.shard), s.settings->node, m.pid), rank);
  introduce_if_complete(self);
}

void take_failure(pointer self, const shard_failed& f) {
  auto& s = self->state;
  const auto rank = rank_of(s, f.shard, f.incarnation);
  if (!rank) return;
  const auto code = static_cast<errc>(f.code);
  if (s.where == phase::starting && code == errc::invalid_argument) return refuse_start(self, f.text);
  if (tells_of_another(code) && s.where == phase::running) {
    s.suspicions.push_back({*rank, *rank, f.text, 2});
    return;
  }
  lose(self, *rank, f.text + ";");
}

void take_trouble(pointer self, const peer_trouble& t) {
  auto& s = self->state;
  const auto reporter = rank_of(s, t.shard, t.incarnation), suspect = rank_of(s, t.peer, t.peer_incarnation);
  if (!reporter || !suspect) return;
  std::erase_if(s.suspicions, [&](const auto& x) { return x.reporter == *reporter && x.suspect == *suspect; });
  if (t.lost && s.places.where(*suspect) == standing::running)
    s.suspicions.push_back({*reporter, *suspect, fmt::format("{} reports: {}", to_string(t.shard), t.text), 2});
}

void take_stopped(pointer self, const shard_stopped& stopped) {
  auto& s = self->state;
  const auto rank = rank_of(s, stopped.shard, stopped.incarnation);
  if (!rank) return;
  if (s.where == phase::stopping) {
    s.outcome.activations.resize(s.members.size());
    s.outcome.activations[*rank] = {stopped.peak_in_flight, stopped.peak_kept_bytes, stopped.predicted_kept_bytes};
  }
  if (s.settings->processes) {
    if (s.members[*rank].worker) self->send(s.members[*rank].worker, end_worker{});
    return;  // the process's end is what counts
  }
  member_gone(self, *rank);
}

void take_exit(pointer self, const worker_exited& gone) {
  auto& s = self->state;
  auto& m = s.members[gone.worker];
  m.pid = gone.pid;
  if (s.where != phase::stopping) lose(self, gone.worker, cause_of({gone.signal, gone.code}));
  member_gone(self, gone.worker);
}

}  // namespace

supervisor_actor::behavior_type supervisor(pointer self, const cluster_settings* settings, run_listener* listener,
                                           std::span<progress_cell> cells, process_launcher* launcher,
                                           std::function<void(run_outcome)> finished) {
  auto& s = self->state;
  s.settings = settings;
  s.listener = listener;
  s.cells = cells;
  s.finished = std::move(finished);
  s.judge = supervisor_state(settings);
  s.places = membership(settings->extents);
  s.members.resize(settings->extents.size());
  if (settings->processes) s.agent = self->spawn(node_agent, launcher, self);
  return {
      [self](const worker_joined& joined) { take_joined_worker(self, joined); },
      [self](const pong& p) {
        auto& st = self->state;
        if (p.worker < st.members.size())
          st.members[p.worker].answered_ping = std::max(p.number, st.members[p.worker].answered_ping);
      },
      [self](const shard_ready& r) { take_ready(self, r); },
      [self](const loss_noted& n) {
        auto& st = self->state;
        const auto rank = rank_of(st, n.shard, n.incarnation);
        if (!rank || n.epoch != st.places.epoch()) return;
        st.members[*rank].address = n.address;
        st.members[*rank].port = n.port;
        st.places.informed(*rank, n.epoch);
        introduce_if_complete(self);
      },
      [self](const shard_connected& c) {
        auto& st = self->state;
        const auto rank = rank_of(st, c.shard, c.incarnation);
        if (rank && st.places.where(*rank) == standing::joining) member_joined(self, *rank);
      },
      [self](const step_done& d) { take_step(self, d); },
      [self](const shard_failed& f) { take_failure(self, f); },
      [self](const peer_trouble& t) { take_trouble(self, t); },
      [self](const shard_stopped& stopped) { take_stopped(self, stopped); },
      [self](const worker_exited& gone) { take_exit(self, gone); },
      [self](const start_failed& f) {
        auto& st = self->state;
        st.places.gone(f.worker);
        if (st.where == phase::starting) return refuse_start(self, f.text);
        tell(self, event_kind::down, f.text, f.worker);
        give_up(self, f.worker, f.text, "");
      },
      [self](const begin_run&) {
        auto& st = self->state;
        st.where = phase::starting;
        st.phase_began = supervisor_data::clock::now();
        if (st.settings->processes) launch_members(self);
        self->delayed_send(self, st.settings->heartbeat, supervisor_tick{});
      },
      [self](const launch_due&) { launch_members(self); },
      [self](const interrupt_run& i) {
        const auto text =
            fmt::format("interrupted by signal {} after {} committed steps", i.signal, self->state.judge.next_step());
        if (self->state.where == phase::stopping || self->state.where == phase::over) return;
        tell(self, event_kind::interrupted, text);
        stop(self, {i.signal == SIGINT ? 130 : 143, text, {}}, false);
      },
      [self](const supervisor_tick&) { look_at_deadlines(self); },
  };
}

}  // namespace troupe
