#include "actors/shard/replica_exchange.hpp"

#include <algorithm>

namespace troupe {

replica_exchange::replica_exchange(const settings& s, const stage& model)
    : settings_(s),
      buckets_(model.buckets()),
      elements_(buckets_ * s.replicas),
      announced_(buckets_),
      summed_(buckets_),
      sums_taken_(buckets_ * s.replicas),
      parameters_taken_(buckets_ * s.replicas),
      parts_(s.replicas) {
  for (std::size_t b = 0; b < buckets_; ++b)
    for (std::uint32_t r = 0; r < s.replicas; ++r)
      elements_[b * s.replicas + r] = static_cast<std::uint64_t>(model.share_elements(b, r));
}

status replica_exchange::send(tensor_port& port, message_kind kind, std::uint64_t step, std::size_t bucket,
                              std::uint32_t to, tensor payload) const {
  port.send({kind, settings_.self, peer(to), settings_.epoch, settings_.incarnation, step,
             static_cast<std::uint32_t>(bucket), 0},
            std::move(payload));
  return {};
}

void replica_exchange::consume(tensor_port& port, message_kind kind, std::uint64_t step, std::size_t bucket,
                               std::uint32_t from) const {
  port.consumed({kind, peer(from), settings_.self, settings_.epoch, 0, step, static_cast<std::uint32_t>(bucket), 0});
}

status replica_exchange::send_parts(stage& model, tensor_port& port, std::uint64_t step, std::size_t bucket) {
  announced_[bucket] = true;
  for (std::uint32_t r = 0; r < settings_.replicas; ++r) {
    if (r == settings_.self.replica || elements_of(bucket, r) == 0) continue;
    TROUPE_TRY(auto part, model.gradient_share(bucket, r));
    TROUPE_CHECK(send(port, message_kind::replica_gradient, step, bucket, r, std::move(part)));
  }
  return {};
}

template <class CellOf, class Take>
status replica_exchange::take_from_others(std::vector<bool>& taken, CellOf cell_of, Take take) {
  for (std::size_t b = 0; b < buckets_; ++b)
    for (std::uint32_t r = 0; r < settings_.replicas; ++r) {
      const auto at = b * settings_.replicas + r;
      if (r == settings_.self.replica || elements_of(b, r) == 0 || taken[at]) continue;
      auto* cell = cell_of(b, r);
      if (!cell->waiting()) continue;
      TROUPE_CHECK(take(b, r, cell->take()));
      taken[at] = true;
    }
  return {};
}

bool replica_exchange::all_taken(const std::vector<bool>& taken) const {
  for (std::size_t b = 0; b < buckets_; ++b)
    for (std::uint32_t r = 0; r < settings_.replicas; ++r)
      if (r != settings_.self.replica && elements_of(b, r) != 0 && !taken[b * settings_.replicas + r]) return false;
  return true;
}

result<bool> replica_exchange::advance(stage& model, tensor_port& port, std::uint64_t step, step_arrivals& here) {
  const auto self = settings_.self.replica;
  for (std::size_t b = 0; b < buckets_; ++b) {
    if (summed_[b] || !announced_[b]) continue;
    if (elements_of(b, self) == 0) {
      summed_[b] = true;
      continue;
    }
    bool all_here = true;
    for (std::uint32_t r = 0; r < settings_.replicas; ++r) all_here &= r == self || here.part(b, r)->waiting();
    if (!all_here) continue;
    for (std::uint32_t r = 0; r < settings_.replicas; ++r) parts_[r] = r == self ? tensor() : here.part(b, r)->take();
    TROUPE_CHECK(model.sum_share(b, parts_));
    summed_[b] = true;
    for (std::uint32_t r = 0; r < settings_.replicas; ++r) {
      if (r == self) continue;
      parts_[r] = tensor();
      consume(port, message_kind::replica_gradient, step, b, r);
      if (settings_.split_optimizer) continue;
      TROUPE_TRY(auto sum, model.gradient_share(b, self));
      TROUPE_CHECK(send(port, message_kind::reduced_gradient, step, b, r, std::move(sum)));
    }
  }
  if (!settings_.split_optimizer) {
    const auto cell_of = [&](std::size_t b, std::uint32_t r) { return here.sum(b, r); };
    const auto take = [&](std::size_t b, std::uint32_t r, const tensor& sum) -> status {
      TROUPE_CHECK(model.take_share(b, r, sum));
      consume(port, message_kind::reduced_gradient, step, b, r);
      return {};
    };
    TROUPE_CHECK(take_from_others(sums_taken_, cell_of, take));
  }
  return std::all_of(summed_.begin(), summed_.end(), [](bool done) { return done; }) &&
         (settings_.split_optimizer || all_taken(sums_taken_));
}

status replica_exchange::send_parameters(stage& model, tensor_port& port, std::uint64_t next_step) {
  if (!settings_.split_optimizer || buckets_ == 0) return {};
  parameters_whole_ = false;
  for (std::size_t b = 0; b < buckets_; ++b) {
    if (elements_of(b, settings_.self.replica) == 0) continue;
    for (std::uint32_t r = 0; r < settings_.replicas; ++r) {
      if (r == settings_.self.replica) continue;
      TROUPE_TRY(auto values, model.parameter_share(b));
      TROUPE_CHECK(send(port, message_kind::replica_parameter, next_step, b, r, std::move(values)));
    }
  }
  return {};
}

result<bool> replica_exchange::take_parameters(stage& model, tensor_port& port, std::uint64_t step,
                                               step_arrivals& here) {
  if (parameters_whole_) return true;
  const auto cell_of = [&](std::size_t b, std::uint32_t r) { return here.parameters(b, r); };
  const auto take = [&](std::size_t b, std::uint32_t r, const tensor& values) -> status {
    TROUPE_CHECK(model.take_parameter_share(b, r, values));
    consume(port, message_kind::replica_parameter, step, b, r);
    return {};
  };
  TROUPE_CHECK(take_from_others(parameters_taken_, cell_of, take));
  return parameters_whole_ = all_taken(parameters_taken_);
}

void replica_exchange::begin_step() {
  for (auto* flags : {&announced_, &summed_, &sums_taken_, &parameters_taken_})
    std::fill(flags->begin(), flags->end(), false);
}

tensor_spec replica_exchange::expected(const message_id& id) const {
  if (id.micro_batch >= buckets_ || id.source.replica >= settings_.replicas) return {};
  const auto of_share = id.kind == message_kind::replica_gradient ? settings_.self.replica : id.source.replica;
  return {dtype::f32, {static_cast<std::int64_t>(elements_of(id.micro_batch, of_share))}};
}

}  // namespace troupe
