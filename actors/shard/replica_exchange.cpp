#include "actors/shard/replica_exchange.hpp"

#include <algorithm>

namespace troupe {

replica_exchange::replica_exchange(const settings& s, const stage& model)
    : settings_(s),
      buckets_(model.buckets()),
      elements_(buckets_ * s.replicas),
      announced_(buckets_),
      summed_(buckets_),
      taken_(buckets_ * s.replicas),
      parts_(s.replicas) {
  for (std::size_t b = 0; b < buckets_; ++b)
    for (std::uint32_t r = 0; r < s.replicas; ++r)
      elements_[b * s.replicas + r] = static_cast<std::uint64_t>(model.share_elements(b, r));
}

status replica_exchange::send_parts(stage& model, outbox& out, std::size_t bucket) {
  announced_[bucket] = true;
  for (std::uint32_t r = 0; r < settings_.replicas; ++r) {
    if (r == settings_.self.replica || elements_of(bucket, r) == 0) continue;
    TROUPE_TRY(auto part, model.gradient_share(bucket, r));
    // The sum will take its place in the stage; who comes back and adds it up again needs the part as it is now.
    if (out.keeps()) {
      TROUPE_TRY(part, model.detached(part));
    }
    out.send(message_kind::replica_gradient, peer(r), static_cast<std::uint32_t>(bucket), std::move(part));
  }
  return {};
}

void replica_exchange::pass_on(outbox& out, std::size_t bucket, const tensor& share) const {
  for (std::uint32_t r = 0; r < settings_.replicas; ++r)
    if (r != settings_.self.replica) out.send(share_kind(), peer(r), static_cast<std::uint32_t>(bucket), share);
}

result<bool> replica_exchange::sum(stage& model, outbox& out, step_arrivals& here, std::size_t bucket) {
  const auto self = settings_.self.replica;
  if (!announced_[bucket]) return false;
  if (elements_of(bucket, self) == 0) return true;
  for (std::uint32_t r = 0; r < settings_.replicas; ++r)
    if (r != self && !here.part(bucket, r)->waiting()) return false;
  for (std::uint32_t r = 0; r < settings_.replicas; ++r)
    if (r != self) parts_[r] = here.part(bucket, r)->take();
  TROUPE_CHECK(model.sum_share(bucket, parts_));
  for (std::uint32_t r = 0; r < settings_.replicas; ++r) {
    if (r == self) continue;
    parts_[r] = tensor();
    out.consumed(message_kind::replica_gradient, peer(r), static_cast<std::uint32_t>(bucket));
  }
  if (!settings_.split_optimizer) {
    TROUPE_TRY(const auto share, model.gradient_share(bucket, self));
    pass_on(out, bucket, share);
  }
  return true;
}

result<bool> replica_exchange::take_shares(stage& model, outbox& out, step_arrivals& here) {
  bool all = true;
  for (std::size_t b = 0; b < buckets_; ++b)
    for (std::uint32_t r = 0; r < settings_.replicas; ++r) {
      if (r == settings_.self.replica || elements_of(b, r) == 0) continue;
      const auto at = b * settings_.replicas + r;
      auto* cell = here.share(b, r);
      if (!taken_[at] && cell->waiting()) {
        const auto share = cell->take();
        TROUPE_CHECK(settings_.split_optimizer ? model.take_parameter_share(b, r, share)
                                               : model.take_share(b, r, share));
        out.consumed(share_kind(), peer(r), static_cast<std::uint32_t>(b));
        taken_[at] = true;
      }
      all = all && taken_[at];
    }
  return all;
}

result<bool> replica_exchange::advance(stage& model, outbox& out, step_arrivals& here) {
  bool all = true;
  for (std::size_t b = 0; b < buckets_; ++b) {
    if (!summed_[b]) {
      TROUPE_TRY(summed_[b], sum(model, out, here, b));
    }
    all = all && summed_[b];
  }
  if (settings_.split_optimizer) return all;
  TROUPE_TRY(const bool taken, take_shares(model, out, here));
  return all && taken;
}

status replica_exchange::begin_step(stage& model, outbox& out) {
  for (auto* flags : {&announced_, &summed_, &taken_}) std::fill(flags->begin(), flags->end(), false);
  first_step_ = false;
  for (std::size_t b = 0; settings_.split_optimizer && b < buckets_; ++b) {
    if (elements_of(b, settings_.self.replica) == 0) continue;
    TROUPE_TRY(const auto share, model.parameter_share(b));
    pass_on(out, b, share);
  }
  return {};
}

result<bool> replica_exchange::parameters_whole(stage& model, outbox& out, step_arrivals& here) {
  if (!settings_.split_optimizer || first_step_) return true;
  return take_shares(model, out, here);
}

tensor_spec replica_exchange::expected(const message_id& id) const {
  if (id.micro_batch >= buckets_ || id.source.replica >= settings_.replicas) return {};
  const bool part = id.kind == message_kind::replica_gradient;
  if (!part && id.kind != share_kind()) return {};
  const auto of_share = part ? settings_.self.replica : id.source.replica;
  return {dtype::f32, {static_cast<std::int64_t>(elements_of(id.micro_batch, of_share))}};
}

}  // namespace troupe
