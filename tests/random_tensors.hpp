#pragma once

#include <random>

#include "kernels/core/tensor.hpp"

/// Host tensors with numbers to feed an operation, the same on every run.
struct random_tensors {
  troupe::buffer_pool pool{troupe::host_memory()};
  std::mt19937 random{7};

  troupe::tensor make(troupe::shape dims, troupe::dtype type = troupe::dtype::f32) {
    return troupe::tensor::make(pool, {type, dims}).value();
  }
  troupe::tensor uniform(troupe::shape dims, float low = -1, float high = 1) {
    auto t = make(dims);
    for (auto& v : t.values<float>()) v = std::uniform_real_distribution<float>(low, high)(random);
    return t;
  }
  troupe::tensor indices(troupe::shape dims, std::int32_t limit) {
    auto t = make(dims, troupe::dtype::i32);
    for (auto& v : t.values<std::int32_t>()) v = std::uniform_int_distribution<std::int32_t>(0, limit - 1)(random);
    return t;
  }
};
