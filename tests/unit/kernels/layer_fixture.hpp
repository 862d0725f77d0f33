#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "catch.hpp"
#include "kernels/layers/layer.hpp"

/// What a layer needs to run alone: a CPU backend, memory, parameters with their gradients, and a target.
class layer_fixture {
public:
  /// The parameters become uniform numbers in ±`bound`, whatever their rule; the gradients 0.
  explicit layer_fixture(const troupe::layer& subject, float bound = 0.5F) {
    for (const auto& p : subject.parameters()) {
      parameters.push_back({make({troupe::dtype::f32, p.dims}), make({troupe::dtype::f32, p.dims})});
      REQUIRE(ops->fill_uniform(parameters.back().value, 1, p.name, bound));
    }
    clear_gradients();
  }

  troupe::layer_call call() { return {*ops, memory, parameters, target, loss_scale}; }

  troupe::tensor make(troupe::tensor_spec spec) {
    auto t = troupe::tensor::make(memory, spec);
    REQUIRE(t);
    return *std::move(t);
  }
  /// f32, uniform in ±1, a function of the name.
  troupe::tensor random(troupe::shape dims, const std::string& name) {
    auto t = make({troupe::dtype::f32, dims});
    REQUIRE(ops->fill_uniform(t, 2, name, 1));
    return t;
  }
  /// i32 in [0, limit), each value used sooner or later.
  troupe::tensor indices(troupe::shape dims, std::int32_t limit) {
    auto t = make({troupe::dtype::i32, dims});
    for (std::int32_t i = 0; auto& v : t.values<std::int32_t>()) v = (7 * i + i / 3) % limit, ++i;
    return t;
  }
  void clear_gradients() {
    for (auto& p : parameters) REQUIRE(ops->fill(p.gradient, 0));
  }
  /// The bits of every gradient, one after the other.
  std::vector<float> gradients() const {
    std::vector<float> all;
    for (const auto& p : parameters) {
      const auto g = p.gradient.values<float>();
      all.insert(all.end(), g.begin(), g.end());
    }
    return all;
  }

  std::unique_ptr<troupe::backend> ops = cpu();
  troupe::buffer_pool memory{ops->memory()};
  std::vector<troupe::parameter_view> parameters;
  troupe::tensor target;
  float loss_scale = 1;

private:
  static std::unique_ptr<troupe::backend> cpu() {
    auto made = troupe::make_cpu_backend();
    REQUIRE(made);
    return *std::move(made);
  }
};

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}
