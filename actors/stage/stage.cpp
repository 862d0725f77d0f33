#include "actors/stage/stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace troupe {

namespace {

error at_layer(const layer& l, std::string_view what, const error& e) {
  return {e.code, fmt::format("layer {}, {}: {}", l.name(), what, e.where), e.native};
}

}  // namespace

result<stage> stage::make(layer_list model, const stage_split& split, const parameter_table& table,
                          const tensor_spec& model_input, backend& ops, const stage_settings& settings) {
  TROUPE_TRY(auto specs, infer_specs(model, model_input));
  const auto first =
      std::accumulate(split.begin(), split.begin() + static_cast<std::ptrdiff_t>(settings.stage), std::size_t{0});
  const auto count = split[settings.stage];

  stage s;
  s.ops_ = &ops;
  s.memory_ = std::make_unique<buffer_pool>(ops.memory());
  s.staging_ = std::make_unique<buffer_pool>(ops.staging_memory());
  s.settings_ = settings;
  s.last_ = settings.stage + 1 == split.size();
  for (std::size_t i = first; i <= first + count; ++i) s.specs_.push_back(specs[i]);
  for (std::size_t i = first; i < first + count; ++i) {
    auto& l = s.layers_.emplace_back();
    l.code = std::move(model[i]);
    l.kept.resize(settings.micro_batches);
    const bool is_loss = i + 1 == model.size();
    l.recompute = settings.recompute && !is_loss && l.code->kept_bytes(specs[i]) > specs[i].bytes();
    if (l.recompute) l.inputs.resize(settings.micro_batches);
  }
  TROUPE_CHECK(s.add_parameters(table, first));
  return s;
}

status stage::add_parameters(const parameter_table& table, std::size_t first_layer) {
  std::vector<std::size_t> mine, place(table.parameters.size(), table.parameters.size());
  for (const auto& use : table.uses) {
    if (use.stage != settings_.stage || place[use.parameter] != table.parameters.size()) continue;
    place[use.parameter] = mine.size();
    mine.push_back(use.parameter);
  }
  TROUPE_CHECK(lay_out_memory(table, mine));
  TROUPE_CHECK(add_uses(table, first_layer, place));
  TROUPE_CHECK(make_pieces());
  return ops_->synchronise();
}

status stage::lay_out_memory(const parameter_table& table, const std::vector<std::size_t>& mine) {
  std::vector<std::int64_t> elements;
  std::vector<bool> late;
  for (auto p : mine) {
    elements.push_back(table.parameters[p].dims.elements());
    late.push_back(table.shared(p));
  }
  layout_ = lay_out(elements, late, settings_.bucket_elements);
  const tensor_spec flat{dtype::f32, {layout_.elements}};
  for (tensor* t : {&values_, &gradients_}) {
    TROUPE_TRY(*t, tensor::make(*memory_, flat));
    TROUPE_CHECK(ops_->fill(*t, 0));
  }
  const bool counts_replicated = settings_.group == nullptr || settings_.group->rank() == 0;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const auto& spec = table.parameters[mine[i]];
    const auto& range = layout_.parameters[i];
    parameters_.push_back({mine[i], spec, values_.slice(range.first, range.count).reshaped(spec.dims)});
    TROUPE_CHECK(give_first_values(spec, parameters_.back().value));
    const bool first_use_here = table.stages_of(mine[i]).front() == settings_.stage;
    slots_.push_back({spec.decay,
                      first_use_here && (spec.cut() || counts_replicated),
                      gradients_of(range).reshaped(spec.dims),
                      {},
                      false});
  }
  return {};
}

status stage::add_uses(const parameter_table& table, std::size_t first_layer, const std::vector<std::size_t>& place) {
  for (std::size_t u = 0; u < table.uses.size(); ++u) {
    const auto& use = table.uses[u];
    const auto index = place[use.parameter];
    if (index == table.parameters.size()) continue;
    const auto& spec = table.parameters[use.parameter];
    const tensor_spec like{dtype::f32, spec.dims};
    const bool shared = table.shared(use.parameter), here = use.stage == settings_.stage;
    if (shared) {
      slots_[index].sum_of.push_back(u);
      shared_places_.push_back({u, use.stage, like});
      if (!here) awaited_uses_.push_back(u);
    }
    if (!here) continue;
    tensor gradient = slots_[index].total;
    if (shared) {
      TROUPE_TRY(gradient, tensor::make(*memory_, like));
      TROUPE_CHECK(ops_->fill(gradient, 0));
      own_gradients_.emplace_back(u, gradient);
      auto others = table.stages_of(use.parameter);
      std::erase(others, settings_.stage);
      if (!others.empty()) shared_uses_.push_back({u, std::move(others), gradient});
    }
    auto& l = layers_[use.layer - first_layer];
    l.views.push_back({parameters_[index].value, gradient});
    l.view_of.push_back(index);
    if (spec.partial_gradient) l.partial_gradients.push_back(gradient);
  }
  return {};
}

status stage::make_pieces() {
  const bool split = settings_.split_optimizer && settings_.replicas > 1;
  // What of parameter i this replica counts and, with ZeRO-1, updates.
  const auto shares_of = [&](std::size_t i) {
    std::vector<flat_range> shares;
    for (std::size_t b = 0; b < layout_.buckets.size(); ++b) {
      const auto share =
          settings_.replicas == 1 ? layout_.buckets[b] : layout_.share(b, settings_.replica, settings_.replicas);
      if (const auto part = common_part(layout_.parameters[i], share); part.count > 0) shares.push_back(part);
    }
    return shares;
  };
  std::int64_t updated = 0;
  for (std::size_t b = 0; b < layout_.buckets.size(); ++b) {
    owned_.push_back(split ? layout_.share(b, settings_.replica, settings_.replicas) : layout_.buckets[b]);
    owned_moment_.push_back(updated);
    updated += owned_.back().count;
  }
  const auto moment_of = [&](const flat_range& r) {
    std::size_t u = 0;
    while (common_part(owned_[u], r).count == 0) ++u;
    return owned_moment_[u] + r.first - owned_[u].first;
  };
  std::vector<std::int64_t> moments;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto shares = shares_of(i);
    if (slots_[i].norm_here)
      for (const auto& s : shares) norm_pieces_.push_back({parameters_[i].parameter, gradients_of(s)});
    for (const auto& s : split ? shares : std::vector<flat_range>{layout_.parameters[i]}) {
      pieces_.push_back(
          {i, s.first - layout_.parameters[i].first, values_.slice(s.first, s.count), gradients_of(s), {}, {}});
      moments.push_back(moment_of(s));
    }
  }
  for (tensor* t : {&moments1_, &moments2_}) {
    TROUPE_TRY(*t, tensor::make(*memory_, {dtype::f32, {updated}}));
    TROUPE_CHECK(ops_->fill(*t, 0));
  }
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    pieces_[i].moment1 = moments1_.slice(moments[i], pieces_[i].value.elements());
    pieces_[i].moment2 = moments2_.slice(moments[i], pieces_[i].value.elements());
  }
  return {};
}

tensor stage::state_of(state_part part, std::size_t unit) const {
  const auto& r = owned_[unit];
  switch (part) {
    case state_part::value:
      return values_.slice(r.first, r.count);
    case state_part::gradient:
      return gradients_of(r);
    case state_part::moment1:
      return moments1_.slice(owned_moment_[unit], r.count);
    case state_part::moment2:
      return moments2_.slice(owned_moment_[unit], r.count);
  }
  return {};
}

result<tensor> stage::unit(state_part part, std::size_t unit) { return to_host(state_of(part, unit)); }

status stage::take_unit(state_part part, std::size_t unit, const tensor& values) {
  return ops_->copy(values, state_of(part, unit));
}

result<tensor> stage::detached(const tensor& t) {
  TROUPE_TRY(tensor copy, tensor::make(*staging_, t.spec()));
  std::memcpy(copy.raw(), t.raw(), t.bytes());
  return copy;
}

status stage::give_first_values(const parameter_spec& spec, const tensor& value) {
  switch (spec.init.how) {
    case initial_value::kind::constant:
      if (spec.slice.end < spec.slice.first + spec.dims.elements() && spec.init.amount != 0)
        return invalid("a padded parameter must begin at 0 or be random: " + spec.name);
      return ops_->fill(value, spec.init.amount);
    case initial_value::kind::normal:
      return ops_->fill_normal(value, settings_.seed, spec.name, spec.init.amount, spec.slice);
    case initial_value::kind::uniform:
      return ops_->fill_uniform(value, settings_.seed, spec.name, spec.init.amount, spec.slice);
  }
  return invalid("unknown rule for the first values of " + spec.name);
}

result<tensor> stage::to_device(tensor t) {
  if (!t || on_host()) return t;
  TROUPE_TRY(tensor here, tensor::make(*memory_, t.spec()));
  TROUPE_CHECK(ops_->copy(t, here));
  return here;
}

result<tensor> stage::to_host(tensor t) {
  if (!t || on_host()) return t;
  TROUPE_TRY(tensor there, tensor::make(*staging_, t.spec()));
  TROUPE_CHECK(ops_->copy(t, there));
  TROUPE_CHECK(ops_->synchronise());
  return there;
}

result<tensor> stage::forward(std::uint32_t micro_batch, tensor input, const tensor& target) {
  TROUPE_TRY(tensor x, to_device(std::move(input)));
  TROUPE_TRY(const tensor target_here, to_device(target));
  for (auto& l : layers_) {
    const bool is_loss = last_ && &l == &layers_.back();
    auto call = call_for(l, is_loss ? target_here : no_target_);
    if (l.recompute) l.inputs[micro_batch] = x;
    auto y = l.code->forward(call, x, l.kept[micro_batch]);
    if (!y) return at_layer(*l.code, "forward", y.error());
    if (l.recompute) l.kept[micro_batch].clear();
    x = std::move(*y);
  }
  if (last_) return x;
  return to_host(std::move(x));
}

// `dy` becomes the gradient of the layer's input.
status stage::backward_input_of(layer_state& l, std::uint32_t micro_batch, tensor& dy) {
  auto call = call_for(l, no_target_);
  auto& keep = l.kept[micro_batch];
  if (l.recompute) {
    const auto x = std::exchange(l.inputs[micro_batch], tensor());
    if (auto again = l.code->forward(call, x, keep); !again)
      return at_layer(*l.code, "forward once more", again.error());
  }
  auto dx = l.code->backward_input(call, dy, keep);
  if (!dx) return at_layer(*l.code, "backward input", dx.error());
  dy = std::move(*dx);
  return {};
}

status stage::backward_weight_of(layer_state& l, std::uint32_t micro_batch) {
  auto call = call_for(l, no_target_);
  if (auto s = l.code->backward_weight(call, l.kept[micro_batch]); !s)
    return at_layer(*l.code, "backward weight", s.error());
  if (++l.weights_done == settings_.micro_batches) return complete(l);
  return {};
}

result<tensor> stage::backward(std::uint32_t micro_batch, tensor output_gradient) {
  TROUPE_TRY(tensor dy, to_device(std::move(output_gradient)));
  for (auto l = layers_.rbegin(); l != layers_.rend(); ++l) {
    TROUPE_CHECK(backward_input_of(*l, micro_batch, dy));
    TROUPE_CHECK(backward_weight_of(*l, micro_batch));
  }
  return to_host(std::move(dy));
}

result<tensor> stage::backward_input(std::uint32_t micro_batch, tensor output_gradient) {
  TROUPE_TRY(tensor dy, to_device(std::move(output_gradient)));
  for (auto l = layers_.rbegin(); l != layers_.rend(); ++l) TROUPE_CHECK(backward_input_of(*l, micro_batch, dy));
  return to_host(std::move(dy));
}

status stage::backward_weight(std::uint32_t micro_batch) {
  for (auto l = layers_.rbegin(); l != layers_.rend(); ++l) TROUPE_CHECK(backward_weight_of(*l, micro_batch));
  return {};
}

// Every micro-batch of the step has passed the layer: its gradients are whole, once the tensor shards have met.
status stage::complete(layer_state& l) {
  l.weights_done = 0;
  for (const auto& gradient : l.partial_gradients) TROUPE_CHECK(settings_.group->all_reduce(gradient));
  for (auto i : l.view_of)
    if (slots_[i].sum_of.empty()) slots_[i].complete = true;
  return announce_ready_buckets();
}

// In ascending order, so that every replica announces them alike.
status stage::announce_ready_buckets() {
  for (; announced_buckets_ < buckets(); ++announced_buckets_) {
    const auto& members = layout_.members[announced_buckets_];
    if (!std::all_of(members.begin(), members.end(), [&](auto i) { return slots_[i].complete; })) break;
    if (bucket_ready_) TROUPE_CHECK(bucket_ready_(announced_buckets_));
  }
  return {};
}

tensor_spec stage::spec_of_use(std::size_t use) const {
  for (const auto& place : shared_places_)
    if (place.use == use) return place.spec;
  return {dtype::f32, {0}};
}

std::size_t stage::stage_of_use(std::size_t use) const {
  for (const auto& place : shared_places_)
    if (place.use == use) return place.stage;
  return settings_.stage;
}

status stage::read_loss(const tensor& loss, float& value) {
  TROUPE_TRY(const tensor here, to_host(loss));
  value = here.data<float>()[0];
  return {};
}

status stage::combine_shared(std::span<const tensor> awaited) {
  std::vector<tensor> arrived;
  for (const auto& gradient : awaited) {
    TROUPE_TRY(tensor here, to_device(gradient));
    arrived.push_back(std::move(here));
  }
  const auto gradient_of = [&](std::size_t use) -> const tensor& {
    for (const auto& [u, gradient] : own_gradients_)
      if (u == use) return gradient;
    const auto at = std::find(awaited_uses_.begin(), awaited_uses_.end(), use) - awaited_uses_.begin();
    return arrived[static_cast<std::size_t>(at)];
  };
  for (auto& s : slots_) {
    if (s.sum_of.empty()) continue;
    TROUPE_CHECK(ops_->add(gradient_of(s.sum_of[0]), gradient_of(s.sum_of[1]), s.total));
    for (std::size_t i = 2; i < s.sum_of.size(); ++i)
      TROUPE_CHECK(ops_->add(s.total, gradient_of(s.sum_of[i]), s.total));
    s.complete = true;
  }
  return announce_ready_buckets();
}

result<tensor> stage::gradient_share(std::size_t bucket, std::uint32_t replica) {
  return to_host(gradients_of(layout_.share(bucket, replica, settings_.replicas)));
}

status stage::sum_share(std::size_t bucket, std::span<const tensor> parts) {
  const auto own = gradients_of(layout_.share(bucket, settings_.replica, settings_.replicas));
  // The first sum may overwrite our own gradient only when it is one of its terms.
  TROUPE_TRY(const tensor first, settings_.replica == 0 ? result<tensor>(own) : to_device(parts[0]));
  TROUPE_TRY(const tensor second, settings_.replica == 1 ? result<tensor>(own) : to_device(parts[1]));
  tensor sum = own;
  if (settings_.replica > 1) {
    TROUPE_TRY(sum, tensor::make(*memory_, own.spec()));
  }
  TROUPE_CHECK(ops_->add(first, second, sum));
  for (std::uint32_t r = 2; r < settings_.replicas; ++r) {
    TROUPE_TRY(const tensor next, r == settings_.replica ? result<tensor>(own) : to_device(parts[r]));
    const auto& to = r < settings_.replica ? sum : own;
    TROUPE_CHECK(ops_->add(sum, next, to));
    sum = to;
  }
  return {};
}

status stage::take_share(std::size_t bucket, std::uint32_t replica, const tensor& sum) {
  return ops_->copy(sum, gradients_of(layout_.share(bucket, replica, settings_.replicas)));
}

result<tensor> stage::parameter_share(std::size_t bucket) {
  const auto r = layout_.share(bucket, settings_.replica, settings_.replicas);
  return to_host(values_.slice(r.first, r.count));
}

status stage::take_parameter_share(std::size_t bucket, std::uint32_t replica, const tensor& values) {
  const auto r = layout_.share(bucket, replica, settings_.replicas);
  return ops_->copy(values, values_.slice(r.first, r.count));
}

result<std::vector<stage::parameter_norm>> stage::squared_norms() {
  std::vector<parameter_norm> norms;
  for (const auto& piece : norm_pieces_) {
    TROUPE_TRY(const double squared, ops_->squared_norm(piece.gradient));
    norms.push_back({piece.parameter, squared});
  }
  return norms;
}

status stage::apply(const update_rule& rule) {
  for (const auto& p : pieces_) {
    const adamw_args args{rule.learning_rate,
                          settings_.beta1,
                          settings_.beta2,
                          settings_.epsilon,
                          slots_[p.parameter].decay ? settings_.weight_decay : 0,
                          rule.gradient_scale,
                          static_cast<std::int64_t>(rule.step) + 1};
    TROUPE_CHECK(ops_->adamw(args, p.value, p.gradient, p.moment1, p.moment2));
  }
  TROUPE_CHECK(ops_->fill(gradients_, 0));
  for (const auto& [use, gradient] : own_gradients_) TROUPE_CHECK(ops_->fill(gradient, 0));
  for (auto& s : slots_) s.complete = false;
  announced_buckets_ = 0;
  return ops_->synchronise();
}

std::size_t stage::predicted_kept_bytes() const {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i)
    sum += specs_[i].bytes() + (layers_[i].recompute ? 0 : layers_[i].code->kept_bytes(specs_[i]));
  return sum;
}

std::size_t stage::kept_bytes() const {
  std::size_t sum = 0;
  for (const auto& l : layers_) {
    for (const auto& k : l.kept) sum += k.bytes();
    for (const auto& x : l.inputs) sum += x ? x.bytes() : 0;
  }
  return sum;
}

}  // namespace troupe
