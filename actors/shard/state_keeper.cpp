#include "actors/shard/state_keeper.hpp"

namespace troupe {

namespace {

using part = stage::state_part;
constexpr part state_parts[] = {part::value, part::moment1, part::moment2};

std::vector<std::int64_t> elements_of(const stage* s) {
  std::vector<std::int64_t> elements;
  for (std::size_t u = 0; s != nullptr && u < s->units(); ++u) elements.push_back(s->unit_elements(u));
  return elements;
}

}  // namespace

state_keeper::state_keeper(const settings& s, std::unique_ptr<stage> copy, const stage& own)
    : settings_(s),
      copy_(std::move(copy)),
      own_units_(own.units()),
      own_elements_(elements_of(&own)),
      copied_elements_(elements_of(copy_.get())) {
  if (settings_.begins_anew) copy_left_ = copied_units() * parts;
}

result<bool> state_keeper::whole(stage& own, outbox& out, step_arrivals& here) {
  if (own_state_left_ > 0)
    TROUPE_CHECK(take_state(own, message_kind::kept_state, *settings_.buddy, own_state_left_, out, here));
  if (copy_left_ > 0)
    TROUPE_CHECK(take_state(*copy_, message_kind::owned_state, *settings_.ward, copy_left_, out, here));
  return own_state_left_ == 0 && copy_left_ == 0;
}

status state_keeper::take_state(stage& to, message_kind kind, shard_id from, std::size_t& left, outbox& out,
                                step_arrivals& here) {
  const auto units = to.units();
  for (std::uint32_t i = 0; i < units * parts; ++i) {
    auto* cell = kind == message_kind::kept_state ? here.kept_state(i) : here.owned_state(i);
    if (!cell->waiting()) continue;
    TROUPE_CHECK(to.take_unit(state_parts[i / units], i % units, cell->take()));
    out.consumed(kind, from, i);
    --left;
  }
  return {};
}

status state_keeper::give_state(stage& from, message_kind kind, shard_id to, outbox& out) {
  const auto units = from.units();
  for (std::uint32_t i = 0; i < units * parts; ++i) {
    TROUPE_TRY(auto t, from.unit(state_parts[i / units], i % units));
    out.send_once(kind, to, i, std::move(t));
  }
  return {};
}

status state_keeper::give_own_state(stage& own, outbox& out) {
  if (settings_.replicas_alike) return {};
  return give_state(own, message_kind::owned_state, *settings_.buddy, out);
}

status state_keeper::give_back(stage& own, outbox& out) {
  TROUPE_CHECK(settle());
  return give_state(copy_ ? *copy_ : own, message_kind::kept_state, *settings_.ward, out);
}

status state_keeper::ship_gradients(stage& own, outbox& out) {
  if (shipped_ || !settings_.buddy || settings_.replicas_alike) return {};
  shipped_ = true;
  for (std::uint32_t u = 0; u < own_units_; ++u) {
    if (own_elements_[u] == 0) continue;
    TROUPE_TRY(auto gradient, own.unit(part::gradient, u));
    out.send(message_kind::final_gradient, *settings_.buddy, u, std::move(gradient));
  }
  return {};
}

result<bool> state_keeper::gradients_whole(outbox& out, step_arrivals& here) {
  if (!copy_) return true;
  TROUPE_CHECK(settle());
  std::size_t expected = 0;
  for (std::uint32_t u = 0; u < copied_elements_.size(); ++u) {
    if (copied_elements_[u] == 0) continue;
    ++expected;
    auto* cell = here.final_gradient(u);
    if (!cell->waiting()) continue;
    TROUPE_CHECK(copy_->take_unit(part::gradient, u, cell->take()));
    out.consumed(message_kind::final_gradient, *settings_.ward, u);
    ++gradients_taken_;
  }
  return gradients_taken_ == expected;
}

void state_keeper::commit(const update_rule& rule) {
  shipped_ = false;
  gradients_taken_ = 0;
  if (copy_) due_ = rule;
}

status state_keeper::settle() {
  if (!due_) return {};
  const auto rule = *std::exchange(due_, std::nullopt);
  return copy_->apply(rule);
}

tensor_spec state_keeper::expected(const message_id& id) const {
  const bool from_buddy = id.kind == message_kind::kept_state;
  const auto& sender = from_buddy ? settings_.buddy : settings_.ward;
  const auto& elements = from_buddy ? own_elements_ : copied_elements_;
  if (!sender || *sender != id.source || elements.empty()) return {};
  const auto most = id.kind == message_kind::final_gradient ? 1U : parts;
  if (id.micro_batch >= elements.size() * most) return {};
  return {dtype::f32, {elements[id.micro_batch % elements.size()]}};
}

}  // namespace troupe
