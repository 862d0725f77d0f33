#include "actors/shard/shard_actor.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <bit>
#include <utility>

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

// Says so only when nothing of this incarnation is left: the next one may be in the same process.
void release(pointer self) {
  auto& s = self->state;
  shard_stopped word{s.assignment.shard, s.assignment.incarnation, 0, 0, 0};
  if (s.executor) {
    word.peak_in_flight = s.executor->peak_in_flight();
    word.peak_kept_bytes = s.executor->peak_kept_bytes();
    word.predicted_kept_bytes = s.executor->model().predicted_kept_bytes();
  }
  if (s.loader) self->send_exit(s.loader, caf::exit_reason::user_shutdown);
  s.loader = nullptr;
  s.port.reset();
  s.executor.reset();
  s.ops.reset();
  s.group.reset();
  self->send(s.supervisor, word);
}

void finish_stop(pointer self) {
  release(self);
  self->quit();
}

void take_arrivals(pointer self) {
  auto& s = self->state;
  const auto failure = s.executor->take_arrivals();
  if (s.stopping) {
    if (s.executor->all_peers_closed()) finish_stop(self);
    return;
  }
  if (failure) return fail(self, *failure);
  for (auto& news : s.executor->take_peer_news())
    self->send(s.supervisor, peer_trouble{s.assignment.shard, news.peer, s.assignment.incarnation, news.incarnation,
                                          news.lost, std::move(news.text)});
  if (s.introduced && !s.connected) {
    const auto joined = s.executor->joined();
    if (!joined) return fail(self, joined.error());
    if (!*joined) return;
    s.connected = true;
    self->send(s.supervisor, shard_connected{s.assignment.shard, s.assignment.incarnation});
  }
  schedule_next(self);
}

// A credit window that no schedule can exhaust while its receiver still waits for something else: micro-batches one
// way, the exchange of replicas, and the units of state that a buddy or ward sends.
std::uint32_t credits_for(const shard_parts& parts) {
  const auto units = parts.model->units() + (parts.copy ? parts.copy->units() : 0);
  return std::max({parts.micro_batches, 4U, 3 * static_cast<std::uint32_t>(parts.model->buckets())}) +
         (parts.keeps_copies ? 4 * static_cast<std::uint32_t>(units) : 0);
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
      shard_executor::settings{s.assignment.shard, s.assignment.epoch, s.assignment.incarnation,
                               s.assignment.first_step, parts.plan, parts.micro_batches, parts.extents.replicas,
                               parts.split_optimizer, credits_for(parts), parts.keeps_copies,
                               parts.keeps_copies ? parts.extents.buddy_of(s.assignment.shard) : std::nullopt,
                               parts.keeps_copies ? parts.extents.ward_of(s.assignment.shard) : std::nullopt},
      std::move(*parts.model), std::move(parts.copy), *cell, wake, ask);
  s.make_port = std::move(parts.make_port);
  TROUPE_TRY(s.port, s.make_port(s.assignment.shard, *s.executor));
  s.executor->attach(*s.port);
  if (first || last) {
    const loader_settings needs{parts.steps,
                                s.assignment.first_step,
                                parts.micro_batches,
                                s.assignment.shard.replica * parts.micro_batches,
                                first,
                                last};
    s.loader = self->spawn<caf::linked>(data_loader, std::shared_ptr<data_source>(std::move(parts.data)),
                                        s.executor->mail(), needs);
    self->send(s.loader, load_more{read_ahead(parts.micro_batches)});
  }
  return {};
}

std::vector<std::uint8_t> address_of(const tensor_port& port) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(port.address().data());
  return {bytes, bytes + port.address().size()};
}

void note_loss(pointer self, const peers_lost& lost) {
  auto& s = self->state;
  if (std::any_of(lost.shards.begin(), lost.shards.end(), [&](auto id) { return s.executor->has_peer(id); })) {
    s.port.reset();
    auto port = s.make_port(s.assignment.shard, *s.executor);
    if (!port) return fail(self, port.error());
    s.port = std::move(*port);
    s.port->set_epoch(lost.epoch);
    s.executor->attach_again(*s.port);
    ++s.ports;
  }
  self->send(s.supervisor,
             loss_noted{s.assignment.shard, s.assignment.incarnation, lost.epoch, s.ports, address_of(*s.port)});
}

void connect(pointer self, const connect_peers& peers) {
  auto& s = self->state;
  // Later ones may still come with an earlier epoch: what a peer that lives has sent stays good.
  if (!std::exchange(s.introduced, true)) s.port->set_epoch(peers.epoch);
  std::vector<shard_executor::newcomer> everyone;
  for (const auto& p : peers.peers) {
    const auto* bytes = reinterpret_cast<const std::byte*>(p.address.data());
    everyone.push_back({p.peer, p.incarnation, p.port, p.takes_state, port_address(bytes, bytes + p.address.size())});
  }
  if (auto met = s.executor->introduce(peers.epoch, everyone); !met) return fail(self, met.error());
  take_arrivals(self);
}

void stop(pointer self, bool drain) {
  auto& s = self->state;
  if (s.stopping) return;
  s.stopping = true;
  if (s.group) s.group->abort();
  if (!drain || !s.connected || s.executor->peers().empty()) return finish_stop(self);
  s.executor->say_goodbye();
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
    release(self);
    return caf::exit_reason::unhandled_exception;
  });
  try {
    if (auto built = build(self, factory, cell); !built) fail(self, built.error());
  } catch (const std::exception& e) {
    fail(self, {errc::stage_failed, fmt::format("while building the stage: {}", e.what())});
  }
  if (s.failed) {
    finish_stop(self);
  } else {
    self->send(s.supervisor, shard_ready{s.assignment.shard, s.assignment.incarnation, address_of(*s.port), self});
  }
  return {
      [self](const connect_peers& peers) {
        if (!self->state.failed) connect(self, peers);
      },
      [self](const peers_lost& lost) {
        if (!self->state.failed && self->state.executor) note_loss(self, lost);
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
      [self](const stop_shard& how) { stop(self, how.drain && !self->state.failed && self->state.executor); },
      [self](const arrivals_waiting&) {
        if (!self->state.failed && self->state.executor) take_arrivals(self);
      },
      [self](const run_next_action&) { run_next(self); },
  };
}

}  // namespace troupe
