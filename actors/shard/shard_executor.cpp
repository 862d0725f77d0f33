#include "actors/shard/shard_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "kernels/core/clock.hpp"

namespace troupe {

using phase = progress_cell::phase;

static step_arrivals::sizes sizes_of(const shard_executor::settings& s, const stage& model,
                                     const state_keeper& keeper) {
  return {s.micro_batches, model.awaited_uses().size(), model.buckets(), s.replicas,
          model.units(),   keeper.copied_units()};
}

shard_executor::shard_executor(settings s, stage model, std::unique_ptr<stage> copy, progress_cell& progress,
                               std::function<void()> arrived, ask_loader ask)
    : settings_(std::move(s)),
      stage_(std::move(model)),
      progress_(progress),
      inbox_(std::make_shared<inbox>(std::move(arrived))),
      ask_loader_(std::move(ask)),
      outbox_(settings_.self, settings_.epoch, settings_.incarnation, settings_.first_step, settings_.keeps_sent),
      keeper_({settings_.buddy, settings_.ward, settings_.replicas > 1 && !settings_.split_optimizer,
               settings_.first_step > 0},
              std::move(copy), stage_),
      receive_memory_(stage_.staging_memory()),
      step_(settings_.first_step),
      exchange_({settings_.self, settings_.replicas, settings_.split_optimizer}, stage_),
      arrivals_{step_arrivals(sizes_of(settings_, stage_, keeper_)),
                step_arrivals(sizes_of(settings_, stage_, keeper_))},
      awaited_(stage_.awaited_uses().size()) {
  for (const auto id : find_peers()) links_.push_back({id, 0, 0, false, false, false});
  stage_.when_bucket_ready([this](std::size_t bucket) { return exchange_.send_parts(stage_, outbox_, bucket); });
  result_.timeline.shard = settings_.self;
  result_.timeline.actions.reserve(settings_.plan.size());
}

// --- peers ----------------------------------------------------------------------------------------------------------

std::vector<shard_id> shard_executor::peers() const {
  std::vector<shard_id> ids;
  for (const auto& p : links_) ids.push_back(p.id);
  return ids;
}

std::set<shard_id> shard_executor::find_peers() const {
  std::set<shard_id> found;
  if (!stage_.first()) found.insert(at_stage(settings_.self.stage - 1U));
  if (!stage_.last()) found.insert(at_stage(settings_.self.stage + 1U));
  for (const auto& use : stage_.shared_uses())
    for (auto other : use.other_stages) found.insert(at_stage(other));
  for (std::uint16_t r = 0; r < settings_.replicas; ++r)
    if (r != settings_.self.replica) found.insert({r, settings_.self.stage, settings_.self.shard});
  for (const auto& other : {settings_.buddy, settings_.ward})
    if (other) found.insert(*other);
  return found;
}

shard_executor::link* shard_executor::link_to(shard_id id) {
  const auto found = std::find_if(links_.begin(), links_.end(), [&](const auto& p) { return p.id == id; });
  return found == links_.end() ? nullptr : &*found;
}

bool shard_executor::all_peers_ready() const {
  return std::all_of(links_.begin(), links_.end(), [](const auto& p) { return p.ready; });
}

bool shard_executor::all_peers_closed() const {
  return std::all_of(links_.begin(), links_.end(), [](const auto& p) { return p.closed; });
}

void shard_executor::attach_again(tensor_port& port) {
  attach(port);
  for (auto& l : links_) {
    l.port = 0;
    l.ready = l.closed = l.lost = false;
  }
}

status shard_executor::introduce(std::uint32_t epoch, const std::vector<newcomer>& everyone) {
  outbox_.raise_epoch(epoch);
  for (const auto& n : everyone) {
    if (n.peer == settings_.self && n.takes_state) keeper_.await_own_state();
    auto* l = link_to(n.peer);
    if (l != nullptr && (n.incarnation > l->incarnation || n.port > l->port)) TROUPE_CHECK(meet(*l, n));
  }
  return {};
}

status shard_executor::meet(link& l, const newcomer& n) {
  const bool known = l.incarnation > 0, reborn = n.incarnation > l.incarnation;
  if (l.port > 0) port_->abandon(l.id, {errc::peer_unreachable, "it has a new port"});
  l = {l.id, n.incarnation, n.port, false, false, false};
  port_->connect(l.id, n.address, settings_.credits);
  if (!known) return {};
  outbox_.send_again(l.id);
  if (!reborn || !n.takes_state) return {};
  if (keeper_.ward() == l.id) TROUPE_CHECK(keeper_.give_back(stage_, outbox_));
  if (keeper_.buddy() == l.id) TROUPE_CHECK(keeper_.give_own_state(stage_, outbox_));
  return {};
}

result<bool> shard_executor::joined() {
  if (!all_peers_ready()) return false;
  TROUPE_TRY(const bool whole, keeper_.whole(stage_, outbox_, arrivals_of(step_)));
  if (whole && settings_.first_step > 0) TROUPE_CHECK(exchange_.begin_step(stage_, outbox_));
  return whole;
}

void shard_executor::say_goodbye() {
  for (const auto& p : links_) port_->disconnect(p.id);
}

void shard_executor::note(const arrival& a) {
  auto* p = link_to(a.peer);
  if (p == nullptr) return;
  if (a.what == arrival::kind::peer_closed) {
    p->closed = true;
    return;
  }
  p->ready = a.what == arrival::kind::peer_ready;
  p->closed = !p->ready;
  const bool was_lost = std::exchange(p->lost, !p->ready);
  if (p->lost || was_lost) news_.push_back({p->id, p->incarnation, p->lost, p->lost ? to_string(a.why) : ""});
}

// --- arrivals -------------------------------------------------------------------------------------------------------

void shard_executor::peer_ready(shard_id peer) { inbox_->push({arrival::kind::peer_ready, {}, {}, {}, peer, {}}); }
void shard_executor::peer_closed(shard_id peer) { inbox_->push({arrival::kind::peer_closed, {}, {}, {}, peer, {}}); }
void shard_executor::peer_failed(shard_id peer, const error& why) {
  inbox_->push({arrival::kind::peer_failed, {}, {}, {}, peer, why});
}
void shard_executor::arrived(const message_id& id, tensor payload) {
  inbox_->push({arrival::kind::tensor_message, id, std::move(payload), {}, id.source, {}});
}

result<tensor> shard_executor::destination(const message_id& id, const tensor_spec& spec) {
  const auto expected = [&]() -> tensor_spec {
    switch (id.kind) {
      case message_kind::activation:
        return stage_.input_spec();
      case message_kind::gradient:
        return stage_.output_spec();
      case message_kind::shared_gradient:
        return stage_.spec_of_use(id.micro_batch);
      case message_kind::replica_gradient:
      case message_kind::reduced_gradient:
      case message_kind::replica_parameter:
        return exchange_.expected(id);
      case message_kind::final_gradient:
      case message_kind::owned_state:
      case message_kind::kept_state:
        return keeper_.expected(id);
    }
    return {};
  }();
  if (spec != expected)
    return invalid(fmt::format("{} carries {}, expected {}", to_string(id), to_string(spec), to_string(expected)));
  return tensor::make(receive_memory_, spec);
}

step_arrivals::cell* shard_executor::cell_of(const arrival& a) {
  if (a.id.step < step_ || a.id.step > step_ + 1) return nullptr;
  auto& arrivals = arrivals_of(a.id.step);
  switch (a.id.kind) {
    case message_kind::activation:
      return arrivals.activation(a.id.micro_batch);
    case message_kind::gradient:
      return arrivals.gradient(a.id.micro_batch);
    case message_kind::shared_gradient: {
      const auto& uses = stage_.awaited_uses();
      const auto found = std::find(uses.begin(), uses.end(), a.id.micro_batch);
      return arrivals.shared(static_cast<std::size_t>(found - uses.begin()));
    }
    case message_kind::replica_gradient:
      return arrivals.part(a.id.micro_batch, a.id.source.replica);
    case message_kind::reduced_gradient:
    case message_kind::replica_parameter:
      return arrivals.share(a.id.micro_batch, a.id.source.replica);
    case message_kind::final_gradient:
      return arrivals.final_gradient(a.id.micro_batch);
    case message_kind::owned_state:
      return arrivals.owned_state(a.id.micro_batch);
    case message_kind::kept_state:
      return arrivals.kept_state(a.id.micro_batch);
  }
  return nullptr;
}

void shard_executor::store(arrival& a) {
  if (a.what == arrival::kind::batch && a.target)
    if (auto* target = a.id.step <= step_ + 1 ? arrivals_of(a.id.step).target(a.id.micro_batch) : nullptr)
      target->put(std::move(a.target));
  if (a.what == arrival::kind::batch && !a.value) return;
  auto* cell = cell_of(a);
  if (cell == nullptr || !cell->put(std::move(a.value))) {
    ++dropped_;
    if (a.what == arrival::kind::tensor_message) outbox_.consumed(a.id);
  }
}

std::optional<error> shard_executor::take_arrivals() {
  std::optional<error> failure;
  inbox_->drain(drained_);
  for (auto& a : drained_) {
    switch (a.what) {
      case arrival::kind::tensor_message:
      case arrival::kind::batch:
        store(a);
        break;
      case arrival::kind::data_failed:
        if (!failure) failure = a.why;
        break;
      case arrival::kind::peer_ready:
      case arrival::kind::peer_closed:
      case arrival::kind::peer_failed:
        note(a);
        break;
    }
  }
  drained_.clear();
  return failure;
}

// --- actions --------------------------------------------------------------------------------------------------------

bool shard_executor::ready(const action& a) {
  auto& here = arrivals_of(step_);
  switch (a.what) {
    case pass::forward:
      return here.activation(a.micro_batch)->waiting() && (!stage_.last() || here.target(a.micro_batch)->waiting());
    case pass::backward:
    case pass::backward_input:
      return stage_.last() || here.gradient(a.micro_batch)->waiting();
    case pass::backward_weight:
      return true;
  }
  return false;
}

status shard_executor::run_forward(std::uint32_t mb) {
  auto& here = arrivals_of(step_);
  const auto target = here.target(mb)->take();
  if (stage_.first() || stage_.last()) ask_loader_(1);
  if (!stage_.first()) outbox_.consumed(message_kind::activation, at_stage(settings_.self.stage - 1U), mb);
  TROUPE_TRY(auto y, stage_.forward(mb, here.activation(mb)->take(), target));
  if (++in_flight_ > peak_in_flight_) {
    peak_in_flight_ = in_flight_;
    peak_kept_bytes_ = stage_.kept_bytes();
  }
  if (stage_.last()) {
    TROUPE_CHECK(stage_.read_loss(y, result_.losses[mb]));
  } else {
    outbox_.send(message_kind::activation, at_stage(settings_.self.stage + 1U), mb, std::move(y));
  }
  return {};
}

status shard_executor::send_gradient(std::uint32_t mb, tensor dx) {
  if (!stage_.last()) outbox_.consumed(message_kind::gradient, at_stage(settings_.self.stage + 1U), mb);
  if (!stage_.first()) outbox_.send(message_kind::gradient, at_stage(settings_.self.stage - 1U), mb, std::move(dx));
  return {};
}

status shard_executor::run(const action& a) {
  const auto mb = a.micro_batch;
  auto gradient = [&] { return stage_.last() ? tensor() : arrivals_of(step_).gradient(mb)->take(); };
  switch (a.what) {
    case pass::forward:
      return run_forward(mb);
    case pass::backward: {
      TROUPE_TRY(auto dx, stage_.backward(mb, gradient()));
      --in_flight_;
      return send_gradient(mb, std::move(dx));
    }
    case pass::backward_input: {
      TROUPE_TRY(auto dx, stage_.backward_input(mb, gradient()));
      return send_gradient(mb, std::move(dx));
    }
    case pass::backward_weight:
      --in_flight_;
      return stage_.backward_weight(mb);
  }
  return {};
}

result<shard_executor::outcome> shard_executor::run_next() {
  if (step_ >= granted_ || reported_) return outcome::idle;
  if (cursor_ == 0 && result_.timeline.actions.empty()) {
    TROUPE_TRY(const bool whole, exchange_.parameters_whole(stage_, outbox_, arrivals_of(step_)));
    if (!whole) return outcome::idle;
    result_.step = step_;
    result_.losses.assign(stage_.last() ? settings_.micro_batches : 0, 0.0F);
    result_.timeline.update = last_update_;
  }
  if (cursor_ == settings_.plan.size()) return finish_step();

  const auto& next = settings_.plan[cursor_];
  if (!ready(next)) {
    progress_.set(phase::waiting, step_, next.micro_batch);
    TROUPE_TRY([[maybe_unused]] const bool summed, exchange_.advance(stage_, outbox_, arrivals_of(step_)));
    TROUPE_CHECK(keeper_.settle());
    return outcome::idle;
  }
  return run_action(next);
}

result<shard_executor::outcome> shard_executor::run_action(const action& next) {
  progress_.set(progress_cell::phase_of(next.what), step_, next.micro_batch);
  action_record record{next, monotonic_ns(), 0};
  try {
    TROUPE_CHECK(run(next));
  } catch (const std::exception& e) {
    return error{errc::stage_failed, fmt::format("{}: the stage threw: {}", to_string(progress_), e.what())};
  } catch (...) {
    return error{errc::stage_failed,
                 fmt::format("{}: the stage threw something that is no std::exception", to_string(progress_))};
  }
  record.end_ns = monotonic_ns();
  result_.timeline.actions.push_back(record);
  ++cursor_;
  return outcome::ran;
}

result<bool> shard_executor::combine_shared() {
  if (combined_) return true;
  if (!shared_sent_) {
    for (const auto& use : stage_.shared_uses()) {
      TROUPE_TRY(const auto gradient, stage_.to_host(use.gradient));
      for (auto other : use.other_stages)
        outbox_.send(message_kind::shared_gradient, at_stage(other), static_cast<std::uint32_t>(use.use), gradient);
    }
    shared_sent_ = true;
  }
  auto& here = arrivals_of(step_);
  for (std::size_t i = 0; i < awaited_.size(); ++i)
    if (!here.shared(i)->waiting()) return false;
  for (std::size_t i = 0; i < awaited_.size(); ++i) awaited_[i] = here.shared(i)->take();
  TROUPE_CHECK(stage_.combine_shared(awaited_));
  for (std::size_t i = 0; i < awaited_.size(); ++i) {
    awaited_[i] = {};
    const auto use = stage_.awaited_uses()[i];
    outbox_.consumed(message_kind::shared_gradient, at_stage(stage_.stage_of_use(use)),
                     static_cast<std::uint32_t>(use));
  }
  return combined_ = true;
}

result<shard_executor::outcome> shard_executor::finish_step() {
  progress_.set(phase::shared, step_, 0);
  TROUPE_TRY(const bool combined, combine_shared());
  TROUPE_TRY(const bool summed, exchange_.advance(stage_, outbox_, arrivals_of(step_)));
  if (!combined || !summed) return outcome::idle;
  TROUPE_CHECK(keeper_.ship_gradients(stage_, outbox_));
  TROUPE_TRY(const bool kept, keeper_.gradients_whole(outbox_, arrivals_of(step_)));
  if (!kept) return outcome::idle;
  TROUPE_TRY(result_.norms, stage_.squared_norms());
  reported_ = true;
  return outcome::step_done;
}

status shard_executor::commit(const update_rule& rule) {
  if (!reported_ || rule.step != step_)
    return invalid(fmt::format("commit of step {} reached a shard that stands at step {}", rule.step, step_));
  progress_.set(phase::update, step_, 0);
  last_update_ = {{}, monotonic_ns(), 0};
  TROUPE_CHECK(stage_.apply(rule));
  last_update_.end_ns = monotonic_ns();
  keeper_.commit(rule);
  arrivals_of(step_).clear();
  ++step_;
  outbox_.begin_step(step_);
  cursor_ = 0;
  shared_sent_ = combined_ = reported_ = false;
  TROUPE_CHECK(exchange_.begin_step(stage_, outbox_));
  result_.timeline.actions.clear();
  progress_.set(step_ < granted_ ? phase::waiting : phase::done, step_, 0);
  return {};
}

}  // namespace troupe
