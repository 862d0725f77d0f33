#include "actors/shard/shard_executor.hpp"

#include "actors/schedule/generators.hpp"
#include "pipeline_by_hand.hpp"
#include "transport/in_process.hpp"

using namespace troupe;

namespace {

// Two executors joined in one process, fed by hand in place of loaders.
struct two_shards {
  explicit two_shards(const schedule& s) : gpt({2, 2}) {
    for (std::uint16_t i = 0; i < 2; ++i) {
      shard_executor::settings settings;
      settings.self = {0, i, 0};
      settings.stages = 2;
      settings.plan = s.actions[i];
      settings.micro_batches = s.micro_batches;
      shards.push_back(std::make_unique<shard_executor>(
          settings, std::move(gpt.stages[i]), cells[i], [] {}, [](std::uint32_t) {}));
      ports.push_back(exchange.make_port({0, i, 0}, *shards[i]));
      shards[i]->attach(*ports[i]);
      shards[i]->grant(100);
    }
    for (std::uint16_t i = 0; i < 2; ++i) ports[i]->connect({0, static_cast<std::uint16_t>(1 - i), 0}, {}, 4);
    for (auto& shard : shards) CHECK_FALSE(shard->take_arrivals());
    REQUIRE(shards[0]->all_peers_ready());
    REQUIRE(shards[1]->all_peers_ready());
  }
  ~two_shards() { ports.clear(); }

  void feed(std::uint64_t step, std::uint32_t mb) {
    arrival input, target;
    input.what = target.what = arrival::kind::batch;
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
        moved = moved || *ran != shard_executor::outcome::idle;
        done[i] = done[i] || *ran == shard_executor::outcome::step_done;
      }
    }
    return done[0] && done[1];
  }

  tiny_gpt gpt;
  progress_cell cells[2];
  in_process_exchange exchange;
  std::vector<std::unique_ptr<shard_executor>> shards;
  std::vector<std::unique_ptr<tensor_port>> ports;
};

std::vector<float> losses_of_two_steps(const schedule& s) {
  two_shards two(s);
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

}  // namespace

TEST_CASE("every schedule that a shard can run gives the same bits", "[shard]") {
  const auto expected = losses_of_two_steps(make_1f1b({2, 3}));
  for (const auto name : runnable_schedule_names()) {
    CAPTURE(name);
    const auto s = make_schedule(name, {2, 3});
    REQUIRE(s);
    CHECK(losses_of_two_steps(*s) == expected);
  }
}

TEST_CASE("a shard idles until the input its schedule names arrives", "[shard]") {
  two_shards two(make_1f1b({2, 3}));
  two.feed(0, 1);
  CHECK_FALSE(two.run());  // micro-batch 0 comes first
  CHECK(two.cells[0].where() == progress_cell::phase::waiting);
  CHECK(two.shards[0]->finished_step().timeline.actions.empty());
  two.feed(0, 0);
  two.feed(0, 2);
  CHECK(two.run());
}

TEST_CASE("peak in flight follows the schedule", "[shard]") {
  two_shards one(make_1f1b({2, 3})), all(make_gpipe({2, 3}));
  for (auto* two : {&one, &all}) {
    for (std::uint32_t mb = 0; mb < 3; ++mb) two->feed(0, mb);
    REQUIRE(two->run());
  }
  CHECK(one.shards[0]->peak_in_flight() == 2);
  CHECK(one.shards[1]->peak_in_flight() == 1);
  CHECK(all.shards[0]->peak_in_flight() == 3);
  CHECK(all.shards[1]->peak_in_flight() == 3);
}

TEST_CASE("a message that comes twice, too late or too early is dropped and counted", "[shard]") {
  two_shards two(make_1f1b({2, 3}));
  for (std::uint32_t mb = 0; mb < 3; ++mb) two.feed(0, mb);
  two.feed(0, 1);
  two.feed(7, 0);
  CHECK(two.run());
  CHECK(two.shards[0]->dropped_arrivals() == 2);
  for (auto& shard : two.shards) REQUIRE(shard->commit({0, 1e-2F, 1}));
  two.feed(0, 0);
  two.run();
  CHECK(two.shards[0]->dropped_arrivals() == 3);
}

TEST_CASE("a step that was not granted does not begin", "[shard]") {
  two_shards two(make_1f1b({2, 3}));
  for (auto& shard : two.shards) shard->grant(0);
  for (std::uint32_t mb = 0; mb < 3; ++mb) two.feed(0, mb);
  CHECK_FALSE(two.run());
}

TEST_CASE("a commit of another step is refused", "[shard]") {
  two_shards two(make_1f1b({2, 3}));
  CHECK_FALSE(two.shards[0]->commit({0, 1e-2F, 1}));  // nothing was reported yet
  for (std::uint32_t mb = 0; mb < 3; ++mb) two.feed(0, mb);
  REQUIRE(two.run());
  CHECK_FALSE(two.shards[0]->commit({1, 1e-2F, 1}));
  CHECK(two.shards[0]->commit({0, 1e-2F, 1}));
}

TEST_CASE("a tensor of another spec than the model's has no destination", "[shard]") {
  two_shards two(make_1f1b({2, 3}));
  const message_id id{message_kind::activation, {0, 0, 0}, {0, 1, 0}, 1, 1, 0, 0, 0};
  CHECK_FALSE(two.shards[1]->destination(id, {dtype::f32, {1, 8, 16}}));
  CHECK_FALSE(two.shards[1]->destination(id, {dtype::i32, {2, 8, 16}}));
  CHECK(two.shards[1]->destination(id, {dtype::f32, {2, 8, 16}}));
}
