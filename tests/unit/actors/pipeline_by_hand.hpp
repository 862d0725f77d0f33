#pragma once

#include <bit>
#include <memory>
#include <vector>

#include "actors/stage/stage.hpp"
#include "catch.hpp"
#include "kernels/layers/gpt.hpp"

/// A tiny tied GPT cut into stages, each with a backend of its own, and the micro-batches to drive it with.
struct tiny_gpt {
  static constexpr std::int64_t sequences = 2, length = 8, vocabulary = 19;
  static constexpr std::uint32_t micro_batches = 3;
  static constexpr float scale = 1.0F / (micro_batches * sequences * length);

  using backend_maker = std::unique_ptr<troupe::backend> (*)();
  static std::unique_ptr<troupe::backend> on_cpu() { return std::move(troupe::make_cpu_backend()).value(); }

  explicit tiny_gpt(troupe::stage_split cut, bool tied = true, backend_maker make_ops = on_cpu)
      : split(std::move(cut)) {
    auto listed = troupe::make_gpt(config(tied));
    REQUIRE(listed);
    auto made = troupe::parameter_table::make(*listed, split);
    REQUIRE(made);
    table = *made;
    for (std::size_t i = 0; i < split.size(); ++i) {
      backends.push_back(make_ops());
      auto layers = troupe::make_gpt(config(tied));
      REQUIRE(layers);
      troupe::stage_settings s;
      s.stage = i;
      s.micro_batches = micro_batches;
      s.loss_scale = scale;
      auto built = troupe::stage::make(std::move(*layers), split, table, {troupe::dtype::i32, {sequences, length}},
                                       *backends.back(), s);
      REQUIRE(built);
      stages.push_back(std::move(*built));
    }
  }
  static troupe::gpt_config config(bool tied) { return {2, 16, 2, length, vocabulary, tied}; }

  troupe::tensor tokens(std::uint64_t step, std::uint32_t micro_batch, int shift) {
    auto t = troupe::tensor::make(memory, {troupe::dtype::i32, {sequences, length}});
    REQUIRE(t);
    std::int32_t i = 0;
    for (auto& v : t->values<std::int32_t>()) {
      v = static_cast<std::int32_t>(
          (static_cast<std::int32_t>(step) * 31 + static_cast<std::int32_t>(micro_batch) * 7 + (i + shift) * 5) %
          vocabulary);
      ++i;
    }
    return *t;
  }

  troupe::stage_split split;
  troupe::parameter_table table;
  std::vector<std::unique_ptr<troupe::backend>> backends;
  std::vector<troupe::stage> stages;
  troupe::buffer_pool memory{troupe::host_memory()};
};
