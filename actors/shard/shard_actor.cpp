#include "actors/shard/shard_actor.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <bit>

#include "actors/loader/data_loader.hpp"

namespace troupe {

namespace {

using pointer = shard_actor::stateful_pointer<shard_actor_state>;
using executor_outcome = shard_executor::outcome;

// How many micro-batches a loader reads ahead of the shard: never beyond the next step, which is as far as a shard
// takes arrivals.
std::uint32_t read_ahead(std::uint32_t micro_batches) { return std::min(micro_batches, 4U); }

void fail(pointer self, const error& why) {
  auto& s = self->state;
  if (s.failed || s.stopping) return;
  s.failed = true;
  if (s.group) s.group->abort();  // the others need not wait for this one
  self->send(s.supervisor, shard_failed{s.assignment.shard, s.assignment.incarnation,
                                        static_cast<std::uint8_t>(why.code), to_string(why)});
}

timed_action to_wire(const action_record& r) {
  return {static_cast<std::uint8_t>(r.what.what), r.what.micro_batch, r.what.chunk, r.start_ns, r.end_ns};
}

void report_step(pointer self) {
  auto& s = self->state;
  const auto& finished = s.executor->finished_step();
  step_done done{
      s.assignment.shard, s.assignment.incarnation, finished.step, {}, {}, {}, to_wire(finished.timeline.update)};
  for (float loss : finished.losses) done.loss_bits.push_back(std::bit_cast<std::uint32_t>(loss));
  for (const auto& n : finished.norms) done.norms.push_back({n.parameter, std::bit_cast<std::uint64_t>(n.squared)});
  for (const auto& a : finished.timeline.actions) done.actions.push_back(to_wire(a));
  self->send(s.supervisor, std::move(done));
}

// One action a message, so that a stop or a commit is never behind more than one.
void schedule_next(pointer self) {
  auto& s = self->state;
  if (s.running || s.failed || s.stopping) return;
  s.running = true;
  self->send(self, run_next_action{});
}

void run_next(pointer self) {
  auto& s = self->state;
  s.running = false;
  if (s.failed || s.stopping || !s.connected) return;
  const auto ran = s.executor->run_next();
  if (!ran) return fail(self, ran.error());
  if (*ran == executor_outcome::ran) schedule_next(self);
  if (*ran == executor_outcome::step_done) report_step(self);
}

void finish_stop(pointer self) {
  auto& s = self->state;
  self->send(s.supervisor, shard_stopped{s.assignment.shard, s.assignment.incarnation, s.executor->peak_in_flight(),
                                         s.executor->peak_kept_bytes(), s.executor->model().predicted_kept_bytes()});
  self->quit();
}

void take_arrivals(pointer self) {
  auto& s = self->state;
  const auto failure = s.executor->take_arrivals();
  if (failure) {
    if (s.stopping) return finish_stop(self);
    return fail(self, *failure);
  }
  if (s.stopping) {
    if (s.executor->all_peers_closed()) finish_stop(self);
    return;
  }
  if (s.introduced && !s.connected && s.executor->all_peers_ready()) {
    s.connected = true;
    self->send(s.supervisor, shard_connected{s.assignment.shard, s.assignment.incarnation});
  }
  schedule_next(self);
}

// A credit window that no schedule can exhaust while its receiver still waits for something else.
std::uint32_t credits_for(const shard_parts& parts) {
  return std::max({parts.micro_batches, 4U, 3 * static_cast<std::uint32_t>(parts.model->buckets())});
}

status build(pointer self, shard_factory& factory, progress_cell* cell) {
  auto& s = self->state;
  TROUPE_TRY(auto parts, factory(s.assignment));
  const bool first = parts.model->first(), last = parts.model->last();
  const auto me = caf::actor_cast<caf::weak_actor_ptr>(self->address());
  auto wake = [me] {
    if (auto strong = me.lock()) caf::anon_send(caf::actor_cast<shard_actor>(std::move(strong)), arrivals_waiting{});
  };
  auto ask = [self](std::uint32_t n) {
    if (self->state.loader) self->send(self->state.loader, load_more{n});
  };
  s.group = std::move(parts.group);
  s.ops = std::move(parts.ops);
  s.executor = std::make_unique<shard_executor>(
      shard_executor::settings{s.assignment.shard, s.assignment.epoch, s.assignment.incarnation, parts.plan,
                               parts.micro_batches, parts.extents.replicas, parts.split_optimizer, credits_for(parts)},
      std::move(*parts.model), *cell, wake, ask);
  TROUPE_TRY(s.port, parts.make_port(s.assignment.shard, *s.executor));
  s.executor->attach(*s.port);
  if (first || last) {
    const loader_settings needs{parts.steps, parts.micro_batches, s.assignment.shard.replica * parts.micro_batches,
                                first, last};
    s.loader = self->spawn<caf::linked>(data_loader, std::shared_ptr<data_source>(std::move(parts.data)),
                                        s.executor->mail(), needs);
    self->send(s.loader, load_more{read_ahead(parts.micro_batches)});
  }
  return {};
}

void connect(pointer self, const connect_peers& peers) {
  auto& s = self->state;
  s.introduced = true;
  s.port->set_epoch(peers.epoch);
  for (const auto peer : s.executor->peers())
    for (const auto& p : peers.peers)
      if (p.peer == peer) {
        const auto* bytes = reinterpret_cast<const std::byte*>(p.address.data());
        s.port->connect(peer, port_address(bytes, bytes + p.address.size()), s.executor->credits());
      }
  take_arrivals(self);
}

void stop(pointer self, bool drain) {
  auto& s = self->state;
  if (s.stopping) return;
  s.stopping = true;
  if (s.group) s.group->abort();
  if (!drain || !s.connected || s.executor->peers().empty()) return finish_stop(self);
  for (const auto peer : s.executor->peers()) s.port->disconnect(peer);
  take_arrivals(self);
}

}  // namespace

shard_actor::behavior_type shard(pointer self, shard_assignment assignment, shard_factory factory, progress_cell* cell,
                                 supervisor_actor supervisor) {
  auto& s = self->state;
  s.assignment = std::move(assignment);
  s.supervisor = std::move(supervisor);
  pthread_setname_np(pthread_self(), fmt::format("{}", to_string(s.assignment.shard)).c_str());
  self->monitor(s.supervisor);
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  self->set_exception_handler([self](std::exception_ptr& thrown) -> caf::error {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& e) {
      fail(self, {errc::stage_failed, fmt::format("unexpected exception: {}", e.what())});
    } catch (...) {
      fail(self, {errc::stage_failed, "unexpected exception that is no std::exception"});
    }
    return caf::exit_reason::unhandled_exception;
  });
  try {
    if (auto built = build(self, factory, cell); !built) fail(self, built.error());
  } catch (const std::exception& e) {
    fail(self, {errc::stage_failed, fmt::format("while building the stage: {}", e.what())});
  }
  if (!s.failed) {
    const auto& address = s.port->address();
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(address.data());
    self->send(s.supervisor,
               shard_ready{s.assignment.shard, s.assignment.incarnation, {bytes, bytes + address.size()}, self});
  }
  return {
      [self](const connect_peers& peers) {
        if (!self->state.failed) connect(self, peers);
      },
      [self](const step_grant& grant) {
        if (self->state.failed) return;
        self->state.executor->grant(grant.end);
        schedule_next(self);
      },
      [self](const step_commit& c) {
        if (self->state.failed) return;
        const update_rule rule{c.step, std::bit_cast<float>(c.learning_rate_bits),
                               std::bit_cast<float>(c.gradient_scale_bits)};
        if (auto applied = self->state.executor->commit(rule); !applied) return fail(self, applied.error());
        schedule_next(self);
      },
      [self](const stop_shard& how) {
        if (self->state.executor) return stop(self, how.drain && !self->state.failed);
        self->quit();
      },
      [self](const arrivals_waiting&) {
        if (!self->state.failed) take_arrivals(self);
      },
      [self](const run_next_action&) { run_next(self); },
  };
}

}  // namespace troupe
