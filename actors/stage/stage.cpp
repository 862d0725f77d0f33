#include "actors/stage/stage.hpp"

#include <fmt/format.h>

#include <algorithm>
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
  for (std::size_t i = first; i < first + count; ++i)
    s.layers_.push_back({std::move(model[i]), {}, std::vector<kept_tensors>(settings.micro_batches)});
  TROUPE_CHECK(s.add_parameters(table, first));
  return s;
}

status stage::add_parameters(const parameter_table& table, std::size_t first_layer) {
  std::vector<std::size_t> place(table.parameters.size(), table.parameters.size());
  for (std::size_t u = 0; u < table.uses.size(); ++u) {
    const auto& use = table.uses[u];
    if (use.stage != settings_.stage) continue;
    const auto& spec = table.parameters[use.parameter];
    const tensor_spec like{dtype::f32, spec.dims};
    auto& index = place[use.parameter];
    if (index == table.parameters.size()) {
      index = parameters_.size();
      named_parameter p{use.parameter, spec.name, {}, {}, {}};
      for (tensor* t : {&p.value, &p.moment1, &p.moment2}) {
        TROUPE_TRY(*t, tensor::make(*memory_, like));
        TROUPE_CHECK(ops_->fill(*t, 0));
      }
      TROUPE_CHECK(give_first_values(spec, p.value));
      parameters_.push_back(std::move(p));
      slots_.push_back({spec.decay, table.stages_of(use.parameter).front() == settings_.stage, {}, {}});
    }
    TROUPE_TRY(auto gradient, tensor::make(*memory_, like));
    TROUPE_CHECK(ops_->fill(gradient, 0));
    layers_[use.layer - first_layer].views.push_back({parameters_[index].value, gradient});
    if (!table.shared(use.parameter)) {
      slots_[index].total = gradient;
      continue;
    }
    own_gradients_.emplace_back(u, gradient);
    auto others = table.stages_of(use.parameter);
    std::erase(others, settings_.stage);
    if (!others.empty()) shared_uses_.push_back({u, std::move(others), gradient});
  }
  for (std::size_t u = 0; u < table.uses.size(); ++u) {
    const auto& use = table.uses[u];
    const auto index = place[use.parameter];
    if (index == table.parameters.size() || !table.shared(use.parameter)) continue;
    slots_[index].sum_of.push_back(u);
    shared_places_.push_back({u, use.stage, {dtype::f32, table.parameters[use.parameter].dims}});
    if (use.stage != settings_.stage) awaited_uses_.push_back(u);
    if (!slots_[index].total) {
      TROUPE_TRY(slots_[index].total, tensor::make(*memory_, shared_places_.back().spec));
    }
  }
  return ops_->synchronise();
}

status stage::give_first_values(const parameter_spec& spec, const tensor& value) {
  switch (spec.init.how) {
    case initial_value::kind::constant:
      return ops_->fill(value, spec.init.amount);
    case initial_value::kind::normal:
      return ops_->fill_normal(value, settings_.seed, spec.name, spec.init.amount);
    case initial_value::kind::uniform:
      return ops_->fill_uniform(value, settings_.seed, spec.name, spec.init.amount);
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
    auto y = l.code->forward(call, x, l.kept[micro_batch]);
    if (!y) return at_layer(*l.code, "forward", y.error());
    x = std::move(*y);
  }
  if (last_) return x;
  return to_host(std::move(x));
}

result<tensor> stage::backward(std::uint32_t micro_batch, tensor output_gradient) {
  TROUPE_TRY(tensor dy, to_device(std::move(output_gradient)));
  for (auto l = layers_.rbegin(); l != layers_.rend(); ++l) {
    auto call = call_for(*l, no_target_);
    auto dx = l->code->backward_input(call, dy, l->kept[micro_batch]);
    if (!dx) return at_layer(*l->code, "backward", dx.error());
    if (auto s = l->code->backward_weight(call, l->kept[micro_batch]); !s)
      return at_layer(*l->code, "backward", s.error());
    dy = std::move(*dx);
  }
  return to_host(std::move(dy));
}

result<tensor> stage::backward_input(std::uint32_t micro_batch, tensor output_gradient) {
  TROUPE_TRY(tensor dy, to_device(std::move(output_gradient)));
  for (auto l = layers_.rbegin(); l != layers_.rend(); ++l) {
    auto call = call_for(*l, no_target_);
    auto dx = l->code->backward_input(call, dy, l->kept[micro_batch]);
    if (!dx) return at_layer(*l->code, "backward input", dx.error());
    dy = std::move(*dx);
  }
  return to_host(std::move(dy));
}

status stage::backward_weight(std::uint32_t micro_batch) {
  for (auto l = layers_.rbegin(); l != layers_.rend(); ++l) {
    auto call = call_for(*l, no_target_);
    if (auto s = l->code->backward_weight(call, l->kept[micro_batch]); !s)
      return at_layer(*l->code, "backward weight", s.error());
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
  }
  return {};
}

result<std::vector<stage::parameter_norm>> stage::squared_norms() {
  std::vector<parameter_norm> norms;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].norm_here) continue;
    TROUPE_TRY(const double squared, ops_->squared_norm(slots_[i].total));
    norms.push_back({parameters_[i].parameter, squared});
  }
  return norms;
}

status stage::apply(const update_rule& rule) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const adamw_args args{rule.learning_rate,
                          settings_.beta1,
                          settings_.beta2,
                          settings_.epsilon,
                          slots_[i].decay ? settings_.weight_decay : 0,
                          rule.gradient_scale,
                          static_cast<std::int64_t>(rule.step) + 1};
    auto& p = parameters_[i];
    TROUPE_CHECK(ops_->adamw(args, p.value, slots_[i].total, p.moment1, p.moment2));
  }
  for (auto& l : layers_)
    for (auto& view : l.views) TROUPE_CHECK(ops_->fill(view.gradient, 0));
  return ops_->synchronise();
}

std::size_t stage::predicted_kept_bytes() const {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) sum += specs_[i].bytes() + layers_[i].code->kept_bytes(specs_[i]);
  return sum;
}

std::size_t stage::kept_bytes() const {
  std::size_t sum = 0;
  for (const auto& l : layers_)
    for (const auto& k : l.kept) sum += k.bytes();
  return sum;
}

}  // namespace troupe
