#include "actors/shard/shard_executor.hpp"

#include "actors/schedule/generators.hpp"
#include "remote_backend.hpp"
#include "two_shards.hpp"

using namespace troupe;

TEST_CASE("every schedule that a shard can run gives the same bits", "[shard]") {
  const auto expected = losses_of_two_steps(make_1f1b({2, 3}));
  for (const auto name : runnable_schedule_names()) {
    CAPTURE(name);
    const auto s = make_schedule(name, {2, 3});
    REQUIRE(s);
    CHECK(losses_of_two_steps(*s) == expected);
  }
}

TEST_CASE("shards whose tensors live on a device give the host's bits", "[shard]") {
  const tiny_gpt::backend_maker remote = [] { return std::unique_ptr<backend>(std::make_unique<remote_backend>()); };
  const auto s = make_1f1b({2, 3});
  CHECK(losses_of_two_steps(s, remote) == losses_of_two_steps(s));
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
