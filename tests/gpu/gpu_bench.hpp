#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "catch.hpp"
#include "kernels/ops/backend.hpp"
#include "random_tensors.hpp"

/// The GPU's backend where one answers; else says that the test was skipped.
inline std::unique_ptr<troupe::backend> gpu_or_skip() {
  auto made = troupe::make_backend({troupe::device_kind::cuda, 0});
  if (made) return *std::move(made);
  INFO(made.error().where);
  REQUIRE(made.error().where.find("no usable CUDA device") != std::string::npos);  // anything else is a failure
  std::puts("skipped: no GPU");
  return nullptr;
}

/// A GPU's backend beside a CPU's, and random host tensors to feed both. Empty where there is no GPU.
struct gpu_bench : random_tensors {
  using tensors = std::vector<troupe::tensor>;
  using operation = std::function<troupe::status(troupe::backend&, const tensors&)>;

  explicit operator bool() const { return gpu != nullptr; }

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  }
  troupe::tensor upload(const troupe::tensor& t) {
    auto there = troupe::tensor::make(device, t.spec()).value();
    REQUIRE(gpu->copy(t, there));
    return there;
  }
  troupe::tensor download(const troupe::tensor& t) {
    auto here = make(t.dims(), t.type());
    REQUIRE(gpu->copy(t, here));
    REQUIRE(gpu->synchronise());
    return here;
  }
  /// What `run` makes of copies of `operands` (inputs, outputs and what it adds to alike), on one backend.
  tensors outcome_on(troupe::backend& ops, const tensors& operands, const operation& run) {
    tensors own, results;
    const bool there = ops.where().kind == troupe::device_kind::cuda;
    for (const auto& t : operands) {
      own.push_back(there ? upload(t) : make(t.dims(), t.type()));
      if (!there) REQUIRE(ops.copy(t, own.back()));
    }
    const auto done = run(ops, own);
    INFO((done ? "" : to_string(done.error())));
    REQUIRE(done);
    for (const auto& t : own) results.push_back(there ? download(t) : t);
    return results;
  }
  /// Runs on both: each operand must deviate from the CPU's by at most `tolerance` of the CPU's largest element (0: the
  /// same bits), and a second run on the GPU must give the bits of the first.
  void compare(const tensors& operands, double tolerance, const operation& run) {
    const auto expected = outcome_on(*cpu, operands, run), got = outcome_on(*gpu, operands, run);
    const auto again = outcome_on(*gpu, operands, run);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      INFO("operand " << i << ", " << to_string(operands[i].spec()));
      CHECK(bits(again[i]) == bits(got[i]));
      if (tolerance == 0 || operands[i].type() != troupe::dtype::f32)
        CHECK(bits(got[i]) == bits(expected[i]));
      else
        CHECK(deviation(got[i], expected[i]) <= tolerance);
    }
  }

  static std::string bits(const troupe::tensor& t) { return {static_cast<const char*>(t.raw()), t.bytes()}; }
  /// The largest difference as a share of the largest expected magnitude; infinite for a NaN.
  static double deviation(const troupe::tensor& got, const troupe::tensor& expected) {
    const auto a = got.values<float>(), b = expected.values<float>();
    double difference = 0, largest = 1e-30;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (std::isnan(a[i])) return INFINITY;
      difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
      largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    }
    return difference / largest;
  }

  std::unique_ptr<troupe::backend> cpu = std::move(troupe::make_cpu_backend()).value();
  std::unique_ptr<troupe::backend> gpu = gpu_or_skip();
  troupe::buffer_pool device{gpu ? gpu->memory() : troupe::host_memory()};
};
