#include "actors/supervisor/supervisor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <bit>

#include "actors/node_agent/node_agent.hpp"
#include "kernels/core/clock.hpp"

namespace troupe {

namespace {

using pointer = supervisor_actor::stateful_pointer<supervisor_data>;
using phase = supervisor_data::phase;
using member = supervisor_data::member;

shard_id shard_of(const supervisor_data& s, std::size_t rank) {
  return s.settings->extents.shard_at(static_cast<std::uint32_t>(rank));
}

member* member_of(supervisor_data& s, shard_id id) {
  return s.settings->extents.holds(id) ? &s.members[s.settings->extents.rank_of(id)] : nullptr;
}

// Such a failure of one shard follows from another's, whose own news may still be on its way.
bool tells_of_another(errc code) { return code == errc::peer_unreachable || code == errc::collective_aborted; }

bool all(const supervisor_data& s, bool member::*flag) {
  return std::all_of(s.members.begin(), s.members.end(), [flag](const auto& m) { return m.*flag; });
}

// Members that do not have `flag` yet, for a sentence.
std::string missing(const supervisor_data& s, bool member::*flag) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < s.members.size(); ++i)
    if (!(s.members[i].*flag)) names.push_back(to_string(shard_of(s, i)));
  return fmt::format("{}", fmt::join(names, ", "));
}

void tell(pointer self, event_kind kind, std::string text, std::optional<shard_id> about = std::nullopt) {
  run_event e{kind,           std::chrono::system_clock::now(), about.value_or(shard_id{}), about.has_value(), 1,
              std::move(text)};
  self->state.listener->event(e);
}

void enter(pointer self, phase next) {
  self->state.where = next;
  self->state.phase_began = std::chrono::steady_clock::now();
}

void signal_all(pointer self, int signal) {
  if (self->state.agent) self->send(self->state.agent, signal_workers{signal});
}

// With processes the run is over when every process is gone; with threads, when every shard has quit.
void finish_if_over(pointer self) {
  auto& s = self->state;
  if (s.where != phase::stopping || !all(s, s.settings->processes ? &member::gone : &member::stopped)) return;
  for (auto& m : s.members)
    if (m.worker) self->send(m.worker, end_worker{});
  enter(self, phase::over);
  s.finished(s.outcome);
  self->quit();
}

void stop(pointer self, run_outcome outcome, bool drain) {
  auto& s = self->state;
  if (s.where == phase::stopping || s.where == phase::over) return;
  s.outcome = std::move(outcome);
  enter(self, phase::stopping);
  for (auto& m : s.members) {
    if (m.shard)
      self->send(m.shard, stop_shard{drain});
    else
      m.stopped = true;
    if (!m.joined && !s.settings->processes) m.gone = true;
  }
  if (!drain) signal_all(self, SIGTERM);
  finish_if_over(self);
}

// A shard is lost and nothing here can replace it: the run ends with what was committed.
void give_up(pointer self, std::size_t rank, const std::string& cause) {
  auto& s = self->state;
  if (s.where == phase::stopping || s.where == phase::over) return;
  const auto sentence =
      culprit_sentence(shard_of(s, rank), s.settings->node, s.members[rank].pid, cause, s.cells[rank]);
  tell(self, event_kind::down, sentence, shard_of(s, rank));
  tell(self, event_kind::gave_up, fmt::format("the run ends after {} committed steps", s.judge.next_step()));
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

void assign(pointer self, const worker_joined& joined) {
  auto& s = self->state;
  worker_assignment a{1,
                      1,
                      s.settings->config,
                      {s.settings->split.begin(), s.settings->split.end()},
                      s.settings->extents.stages,
                      s.settings->extents.replicas,
                      s.settings->extents.shards,
                      {}};
  for (std::size_t i = 0; i < s.members.size(); ++i) {
    if (s.settings->processes && i != joined.worker) continue;
    s.members[i].worker = joined.who;
    s.members[i].joined = true;
    s.members[i].pid = joined.pid;
    a.shards.push_back(shard_of(s, i));
  }
  self->send(joined.who, std::move(a));
}

void connect_all(pointer self) {
  auto& s = self->state;
  enter(self, phase::connecting);
  connect_peers peers{1, {}};
  for (const auto& m : s.members) peers.peers.push_back(m.address);
  for (const auto& m : s.members) self->send(m.shard, peers);
}

void grant(pointer self) {
  for (const auto& m : self->state.members) self->send(m.shard, step_grant{self->state.judge.granted()});
}

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
  if (s.where != phase::running) return;
  auto committed = s.judge.take(d.shard, from_wire(d), monotonic_ns());
  if (!committed) return;
  const auto& u = committed->update;
  for (const auto& m : s.members)
    self->send(m.shard, step_commit{u.step, std::bit_cast<std::uint32_t>(u.learning_rate),
                                    std::bit_cast<std::uint32_t>(u.gradient_scale)});
  s.listener->step_committed(committed->report);
  if (!s.judge.all_committed()) return grant(self);
  tell(self, event_kind::finished, fmt::format("all {} steps committed", s.settings->steps));
  stop(self, {0, "done", {}}, true);
}

void look_at_deadlines(pointer self) {
  auto& s = self->state;
  if (s.where == phase::over) return;
  const auto now = std::chrono::steady_clock::now();
  const auto waited = now - s.phase_began;
  if (s.where == phase::starting && waited > s.settings->start_timeout)
    give_up(self,
            static_cast<std::size_t>(
                std::find_if(s.members.begin(), s.members.end(), [](const auto& m) { return !m.ready; }) -
                s.members.begin()),
            fmt::format("not ready within {} ms (missing: {})", s.settings->start_timeout.count(),
                        missing(s, &member::ready)));
  else if (s.where == phase::stopping && s.settings->processes && waited > s.settings->grace && !s.killed) {
    s.killed = true;
    signal_all(self, SIGKILL);
  }
  if (s.where == phase::running && s.suspicion && s.suspicion->ticks_left-- == 0)
    give_up(self, s.suspicion->reporter, s.suspicion->text + ";");
  if (s.settings->processes && (s.where == phase::connecting || s.where == phase::running)) {
    ++s.pings;
    for (std::size_t i = 0; i < s.members.size(); ++i) {
      if (s.members[i].answered_ping + 10 < s.pings)
        return give_up(self, i, fmt::format("gave no sign of life for {} ms", 10 * s.settings->heartbeat.count()));
      self->send(s.members[i].worker, ping{s.pings});
    }
  }
  self->delayed_send(self, s.settings->heartbeat, supervisor_tick{});
}

void worker_gone(pointer self, const worker_exited& gone) {
  auto& s = self->state;
  auto& m = s.members[gone.worker];
  m.gone = m.stopped = true;
  m.pid = gone.pid;
  if (s.where == phase::stopping) return finish_if_over(self);
  give_up(self, gone.worker, cause_of({gone.signal, gone.code}));
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
  s.members.resize(settings->extents.size());
  if (settings->processes) s.agent = self->spawn(node_agent, launcher, self);
  return {
      [self](const worker_joined& joined) {
        auto& st = self->state;
        if (joined.key != st.settings->run_key || st.where != phase::starting ||
            (st.settings->processes && (joined.worker >= st.members.size() || st.members[joined.worker].joined)))
          return;  // a stranger, or one too many: it gets nothing
        assign(self, joined);
      },
      [self](const pong& p) {
        auto& st = self->state;
        if (p.worker < st.members.size())
          st.members[p.worker].answered_ping = std::max(p.number, st.members[p.worker].answered_ping);
      },
      [self](const shard_ready& r) {
        auto& st = self->state;
        auto* found = member_of(st, r.shard);
        if (found == nullptr) return;
        auto& m = *found;
        m.shard = r.who;
        if (st.where != phase::starting) {
          self->send(m.shard, stop_shard{false});
          return;
        }
        m.address = {r.shard, r.address};
        m.ready = true;
        tell(self, event_kind::started,
             fmt::format("shard {} on {} (pid {}) is ready", to_string(r.shard), st.settings->node, m.pid), r.shard);
        if (all(st, &member::ready)) connect_all(self);
      },
      [self](const shard_connected& c) {
        auto& st = self->state;
        auto* m = member_of(st, c.shard);
        if (m == nullptr || st.where != phase::connecting) return;
        m->connected = true;
        if (!all(st, &member::connected)) return;
        enter(self, phase::running);
        st.judge.begin(monotonic_ns());
        grant(self);
      },
      [self](const step_done& d) { take_step(self, d); },
      [self](const shard_failed& f) {
        auto& st = self->state;
        if (!st.settings->extents.holds(f.shard)) return;
        const auto rank = st.settings->extents.rank_of(f.shard);
        const auto code = static_cast<errc>(f.code);
        if (tells_of_another(code) && st.where == phase::running) {
          if (!st.suspicion) st.suspicion = {rank, f.text, 2};
          return;
        }
        if (st.where == phase::starting && code == errc::invalid_argument) return refuse_start(self, f.text);
        give_up(self, rank, f.text + ";");
      },
      [self](const shard_stopped& stopped) {
        auto& st = self->state;
        auto* found = member_of(st, stopped.shard);
        if (found == nullptr) return;
        auto& m = *found;
        m.stopped = true;
        st.outcome.activations.resize(st.members.size());
        st.outcome.activations[st.settings->extents.rank_of(stopped.shard)] = {
            stopped.peak_in_flight, stopped.peak_kept_bytes, stopped.predicted_kept_bytes};
        if (st.settings->processes && m.worker) self->send(m.worker, end_worker{});
        finish_if_over(self);
      },
      [self](const worker_exited& gone) { worker_gone(self, gone); },
      [self](const start_failed& f) {
        auto& st = self->state;
        st.members[f.worker].gone = st.members[f.worker].stopped = true;
        refuse_start(self, f.text);
      },
      [self](const begin_run&) {
        auto& st = self->state;
        enter(self, phase::starting);
        if (st.settings->processes)
          for (std::uint32_t i = 0; i < st.members.size(); ++i) self->send(st.agent, start_worker{i});
        self->delayed_send(self, st.settings->heartbeat, supervisor_tick{});
      },
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
