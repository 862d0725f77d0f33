#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "catch.hpp"
#include "kernels/layers/layer.hpp"

/// A model trained in one thread by the plainest loop: no stages, schedules or messages. What a pipeline must
/// reproduce.
class single_process {
public:
  single_process(troupe::layer_list layers, std::uint64_t seed) : layers_(std::move(layers)) {
    for (const auto& l : layers_) {
      auto& views = views_.emplace_back();
      for (const auto& spec : l->parameters()) views.push_back(view_of(spec, seed));
    }
  }

  /// Forward and backward of one micro-batch, gradients added; returns its loss, already times `scale`.
  /// `outputs`, where given, gets every layer's output.
  float micro_batch(const troupe::tensor& tokens, const troupe::tensor& targets, float scale,
                    std::vector<troupe::tensor>* outputs = nullptr) {
    std::vector<troupe::kept_tensors> kept(layers_.size());
    troupe::tensor at = tokens;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      auto call = call_of(i, targets, scale);
      at = value_of(layers_[i]->forward(call, at, kept[i]));
      if (outputs) outputs->push_back(at);
    }
    const float loss = at.values<float>()[0];
    at = troupe::tensor();
    for (std::size_t i = layers_.size(); i-- > 0;) {
      auto call = call_of(i, targets, scale);
      at = value_of(layers_[i]->backward_input(call, at, kept[i]));
      REQUIRE(layers_[i]->backward_weight(call, kept[i]));
    }
    return loss;
  }

  /// Adds up the gradients of shared parameters and returns the global norm.
  double reduce_gradients() {
    double squares = 0;
    for (auto& [name, p] : parameters_) {
      for (std::size_t i = 1; i < p.gradients.size(); ++i)
        REQUIRE(ops_->add(p.gradients[0], p.gradients[i], p.gradients[0]));
      squares += value_of(ops_->squared_norm(p.gradients[0]));
    }
    return std::sqrt(squares);
  }

  /// One update with the reduced gradients, which become 0.
  void update(const troupe::adamw_args& args) {
    for (auto& [name, p] : parameters_) {
      auto own = args;
      if (!p.decay) own.weight_decay = 0;
      REQUIRE(ops_->adamw(own, p.value, p.gradients[0], p.moments[0], p.moments[1]));
      for (auto& g : p.gradients) REQUIRE(ops_->fill(g, 0));
    }
  }

  struct parameter {
    troupe::tensor value;
    std::vector<troupe::tensor> gradients;  // one for each layer that uses it
    troupe::tensor moments[2];
    bool decay;
  };
  const std::map<std::string, parameter>& parameters() const { return parameters_; }
  troupe::backend& ops() { return *ops_; }
  troupe::buffer_pool& memory() { return memory_; }

private:
  template <class T>
  static T value_of(troupe::result<T> r) {
    INFO((r ? "" : to_string(r.error())));
    REQUIRE(r);
    return *std::move(r);
  }

  troupe::tensor zeros(troupe::shape dims) {
    auto t = value_of(troupe::tensor::make(memory_, {troupe::dtype::f32, dims}));
    REQUIRE(ops_->fill(t, 0));
    return t;
  }

  troupe::parameter_view view_of(const troupe::parameter_spec& spec, std::uint64_t seed) {
    auto& p = parameters_[spec.name];
    if (!p.value) {
      p = {zeros(spec.dims), {}, {zeros(spec.dims), zeros(spec.dims)}, spec.decay};
      REQUIRE((spec.init.how == troupe::initial_value::kind::normal
                   ? ops_->fill_normal(p.value, seed, spec.name, spec.init.amount)
                   : ops_->fill(p.value, spec.init.amount)));
    }
    return {p.value, p.gradients.emplace_back(zeros(spec.dims))};
  }

  troupe::layer_call call_of(std::size_t i, const troupe::tensor& targets, float scale) {
    static const troupe::tensor none;
    return {*ops_, memory_, views_[i], i + 1 == layers_.size() ? targets : none, scale};
  }

  std::unique_ptr<troupe::backend> ops_ = value_of(troupe::make_cpu_backend());
  troupe::buffer_pool memory_{ops_->memory()};
  troupe::layer_list layers_;
  std::map<std::string, parameter> parameters_;
  std::vector<std::vector<troupe::parameter_view>> views_;
};
