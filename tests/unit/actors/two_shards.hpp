#pragma once

#include "actors/shard/shard_executor.hpp"
#include "pipeline_by_hand.hpp"
#include "transport/in_process.hpp"

/// Two executors joined in one process, fed by hand in place of loaders.
struct two_shards {
  explicit two_shards(const troupe::schedule& s, tiny_gpt::backend_maker make_ops = tiny_gpt::on_cpu)
      : gpt({2, 2}, true, make_ops) {
    for (std::uint16_t i = 0; i < 2; ++i) {
      troupe::shard_executor::settings settings;
      settings.self = {0, i, 0};
      settings.plan = s.actions[i];
      settings.micro_batches = s.micro_batches;
      shards.push_back(std::make_unique<troupe::shard_executor>(
          settings, std::move(gpt.stages[i]), nullptr, cells[i], [] {}, [](std::uint32_t) {}));
      ports.push_back(exchange.make_port({0, i, 0}, *shards[i]));
      shards[i]->attach(*ports[i]);
      shards[i]->grant(100);
    }
    for (auto& shard : shards) REQUIRE(shard->introduce(1, {{{0, 0, 0}, 1, 1, false, {}}, {{0, 1, 0}, 1, 1, false, {}}}));
    for (auto& shard : shards) CHECK_FALSE(shard->take_arrivals());
    REQUIRE(shards[0]->all_peers_ready());
    REQUIRE(shards[1]->all_peers_ready());
  }
  ~two_shards() { ports.clear(); }

  void feed(std::uint64_t step, std::uint32_t mb) {
    troupe::arrival input, target;
    input.what = target.what = troupe::arrival::kind::batch;
    input.id.step = target.id.step = step;
    input.id.micro_batch = target.id.micro_batch = mb;
    input.value = gpt.tokens(step, mb, 0);
    target.target = gpt.tokens(step, mb, 1);
    shards[0]->mail()->push(std::move(input));
    shards[1]->mail()->push(std::move(target));
  }
  // Runs until nobody can go on; true when both have finished their step.
  bool run() {
    bool done[2] = {false, false};
    for (bool moved = true; moved;) {
      moved = false;
      for (int i = 0; i < 2; ++i) {
        CHECK_FALSE(shards[i]->take_arrivals());
        const auto ran = shards[i]->run_next();
        REQUIRE(ran);
        moved = moved || *ran != troupe::shard_executor::outcome::idle;
        done[i] = done[i] || *ran == troupe::shard_executor::outcome::step_done;
      }
    }
    return done[0] && done[1];
  }

  tiny_gpt gpt;
  troupe::progress_cell cells[2];
  troupe::in_process_exchange exchange;
  std::vector<std::unique_ptr<troupe::shard_executor>> shards;
  std::vector<std::unique_ptr<troupe::tensor_port>> ports;
};

inline std::vector<float> losses_of_two_steps(const troupe::schedule& s,
                                              tiny_gpt::backend_maker make_ops = tiny_gpt::on_cpu) {
  two_shards two(s, make_ops);
  std::vector<float> losses;
  for (std::uint64_t step = 0; step < 2; ++step) {
    for (std::uint32_t mb = 0; mb < s.micro_batches; ++mb) two.feed(step, mb);
    REQUIRE(two.run());
    const auto& of_step = two.shards[1]->finished_step().losses;
    losses.insert(losses.end(), of_step.begin(), of_step.end());
    for (auto& shard : two.shards) REQUIRE(shard->commit({step, 1e-2F, 1}));
  }
  return losses;
}
