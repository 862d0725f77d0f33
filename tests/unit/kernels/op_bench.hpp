#pragma once

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "catch.hpp"
#include "kernels/ops/backend.hpp"
#include "random_tensors.hpp"
#include "reference.hpp"

/// A CPU backend with tensors to feed it and comparisons for what comes back.
struct op_bench : random_tensors {
  std::unique_ptr<troupe::backend> ops = std::move(troupe::make_cpu_backend()).value();

  troupe::tensor filled(troupe::shape dims, float value) {
    auto t = make(dims);
    std::ranges::fill(t.values<float>(), value);
    return t;
  }
  troupe::tensor duplicate(const troupe::tensor& t) {
    auto twin = make(t.dims(), t.type());
    REQUIRE(ops->copy(t, twin));
    return twin;
  }
};

inline reference::array widen(const troupe::tensor& t) {
  const auto v = t.values<float>();
  return {v.begin(), v.end()};
}

inline reference::indices indices_of(const troupe::tensor& t) {
  const auto v = t.values<std::int32_t>();
  return {v.begin(), v.end()};
}

/// The bytes, so that equality means the same bits, NaN and −0 included.
inline std::string bits(const troupe::tensor& t) { return {static_cast<const char*>(t.raw()), t.bytes()}; }

/// The largest difference as a share of the largest expected magnitude.
inline double deviation(const troupe::tensor& got, const reference::array& expected) {
  const auto values = got.values<float>();
  REQUIRE(values.size() == expected.size());
  double difference = 0, largest = 1e-30;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    REQUIRE_FALSE(std::isnan(values[i]));
    difference = std::max(difference, std::abs(values[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

/// The error's text; a success is none and fails the test.
template <class Outcome>
std::string text_of(const Outcome& outcome) {
  REQUIRE_FALSE(static_cast<bool>(outcome));
  CHECK(outcome.error().code == troupe::errc::invalid_argument);
  return outcome.error().where;
}
