#pragma once

#include <cmath>

#include "kernels/ops/backend.hpp"

namespace troupe {

/// What one AdamW update needs, worked out once in f64, for any backend:
/// parameter ← parameter·keep − rate·m / (√v·unbias + epsilon).
struct adamw_factors {
  float keep, rate, unbias;
};

inline adamw_factors factors_of(const adamw_args& args) {
  const double rate = args.learning_rate;
  const auto step = static_cast<double>(args.step);
  const double bias1 = 1.0 - std::pow(static_cast<double>(args.beta1), step);
  const double bias2 = 1.0 - std::pow(static_cast<double>(args.beta2), step);
  return {static_cast<float>(1.0 - rate * args.weight_decay), static_cast<float>(rate / bias1),
          static_cast<float>(1.0 / std::sqrt(bias2))};
}

}  // namespace troupe
