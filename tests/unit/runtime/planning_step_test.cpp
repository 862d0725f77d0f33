#include <chrono>

#include "catch.hpp"
#include "runtime/planning/config_plan.hpp"
#include "runtime/planning/search.hpp"

using namespace troupe;
using namespace troupe::planning;

namespace {

/// Four stages of two blocks; the embedding and the head cost next to nothing.
training_plan even_plan(std::int64_t micro_batches) {
  training_plan p;
  p.model = {8, 512, 8, 128, 2, false};
  p.extents.stages = 4;
  p.global_batch = micro_batches;
  p.split = {3, 2, 2, 3};
  return p;
}

/// A device of 1 TFLOP/s to which all else is free.
cluster ideal() {
  cluster c;
  c.f32_flops = 1e12;
  c.memory_bytes = c.memory_bytes_per_s = c.inside.bytes_per_s = c.between.bytes_per_s = 1e18;
  c.nodes = 0;
  return c;
}

step_prediction predicted(const training_plan& p, const cluster& on) {
  const auto where = place_plan(p, on);
  REQUIRE(where);
  auto step = predict_step(p, on, *where);
  REQUIRE(step);
  return std::move(*step);
}

double work_of_stage(const training_plan& p) {
  const auto block = block_costs(p);
  return 2 * (block.forward.flops + block.backward_input.flops + block.backward_weight.flops) / 1e12;
}

training_plan trillion() {
  training_plan p;
  p.model = {128, 25'600, 160, 2048, 51'200, true};
  p.extents = {64, 6, 8};
  p.global_batch = 3072;
  p.recompute = recomputing::full;
  p.numbers = bf16_numbers;
  return p;
}

cluster a100(std::uint32_t nodes) {
  auto c = *find_cluster("a100-80g");
  c.nodes = nodes;
  return c;
}

}  // namespace

TEST_CASE("a pipeline without costs but work takes m + p - 1 times a stage", "[planning]") {
  const auto p = even_plan(12);
  const auto step = predicted(p, ideal());
  CHECK(step.step_s == Approx(15 * work_of_stage(p)).epsilon(1e-3));
  CHECK(step.terms.bubble == Approx(3 * work_of_stage(p)).epsilon(5e-3));
  CHECK(step.stages[1].bubble == Approx(3.0 / 15).epsilon(5e-3));
  CHECK(step.tokens_per_s == Approx(12 * 128 / step.step_s));
  CHECK(step.mfu == Approx(12.0 / 15).epsilon(5e-3));
}

TEST_CASE("the terms of a step add up to it", "[planning]") {
  auto p = trillion();
  p.recompute = GENERATE(recomputing::none, recomputing::selective, recomputing::full);
  p.split_optimizer = GENERATE(false, true);
  auto on = a100(0);
  on.overlaps_gradients = GENERATE(false, true);
  const auto step = predicted(p, on);
  CHECK(step.terms.total() == Approx(step.step_s));
  CHECK(step.terms.bubble > 0);
  CHECK((step.terms.recompute > 0) == (p.recompute != recomputing::none));
}

TEST_CASE("a hop costs what the way between its devices costs", "[planning]") {
  // One stage a node against all on one: the schedule waits for each hop.
  const auto p = even_plan(8);
  auto on = ideal();
  on.between = {1e9, 1e-3};
  on.devices_per_node = 1;
  const auto apart = predicted(p, on);
  on.devices_per_node = 4;
  const auto together = predicted(p, on);
  const double hop = 1e-3 + 128 * 512 * 4 / 1e9;
  // arXiv:2104.04473's schedule: 2·((p−1)·m/p + p−2) hops where p divides m.
  CHECK(apart.run.span - together.run.span == Approx(2 * (3 * 8 / 4 + 2) * hop).epsilon(0.02));
}

TEST_CASE("tensor shards divide the work and pay with collectives", "[planning]") {
  auto p = even_plan(8);
  auto on = ideal();
  on.devices_per_node = 8;
  const auto alone = predicted(p, on);
  p.extents.shards = 2;
  CHECK(predicted(p, on).step_s == Approx(alone.step_s / 2).epsilon(1e-3));
  on.inside = {1e9, 0};
  const auto paid = predicted(p, on);
  // Two blocks, each two all-reduces in either direction and, rows being cut, two halves for the weights, and the head
  // half a one in each; between two, each moves one whole activation.
  const double reduction = 128 * 512 * 4 / 1e9;
  CHECK(paid.terms.collectives == Approx(8 * (2 * (2 + 2 + 1) + 1.5) * reduction));
}

TEST_CASE("gradients are exchanged behind the last backwards where the cluster overlaps them", "[planning]") {
  auto p = even_plan(8);
  p.extents.replicas = 2;
  p.global_batch = 16;
  auto on = ideal();
  on.devices_per_node = 8;
  on.inside = {1e11, 0};
  on.overlaps_gradients = false;
  const auto after = predicted(p, on);
  // Stage 0 is the last to end, and has the most parameters: its positions.
  const double longest = static_cast<double>(after.stages[0].memory.gradient_bytes) / 1e11;
  CHECK(after.terms.gradients == Approx(longest));
  on.overlaps_gradients = true;
  CHECK(predicted(p, on).terms.gradients < longest / 2);
}

TEST_CASE("a step of 3072 devices is simulated in less than 5 s", "[planning]") {
  const auto begin = std::chrono::steady_clock::now();
  const auto step = predicted(trillion(), a100(384));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(took.count() < 5);
  CHECK(step.order.actions.size() == 64);
  CHECK(step.order.micro_batches == 512);
}

TEST_CASE("a search finds the fastest layout that fits", "[planning]") {
  // 175 billion parameters on 96 devices. What the search says is what each layout's own prediction says, and no layout
  // of a walk through all of them is faster.
  training_plan like;
  like.model = {24, 4096, 32, 1024, 50'304, true};
  like.global_batch = 64;
  like.numbers = bf16_numbers;
  const auto on = a100(2);
  const std::vector<std::string> schedules{"1f1b", "zb-h1", "interleaved"};
  const auto found = search_layouts(like, on, schedules, 5);
  REQUIRE(found);
  REQUIRE(found->best.size() == 5);
  double before = 0;
  for (const auto& c : found->best) {
    CAPTURE(layout_text(c.plan));
    const auto step = predicted(c.plan, on);
    CHECK(step.step_s == Approx(c.step_s));
    CHECK(step.peak_bytes() == c.peak_bytes);
    CHECK(static_cast<double>(c.peak_bytes) <= on.memory_bytes);
    CHECK(c.plan.extents.size() == 16);
    CHECK(c.step_s >= before);
    before = c.step_s;
  }
  auto all = search_layouts(like, on, schedules, 100'000);
  REQUIRE(all);
  CHECK(all->best.size() > 50);
  for (std::size_t k = 0; k < 5; ++k) CHECK(all->best[k].step_s == Approx(found->best[k].step_s));
  CHECK(found->simulated < all->simulated);
}

TEST_CASE("a search tells why the best is best, and what is missing where nothing fits", "[planning]") {
  training_plan like = trillion();
  const auto none = search_layouts(like, a100(1), {"1f1b"}, 3);
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error().where, Catch::Matchers::Contains("fits 8 devices of 74.51 GiB") &&
                                     Catch::Matchers::Contains("more devices or memory"));
  candidate best, next;
  best.terms = {.matrix = 8, .bubble = 1, .gradients = 1};
  best.step_s = 10;
  next.terms = {.matrix = 8, .recompute = 2, .bubble = 0.5, .gradients = 1};
  next.step_s = 11.5;
  search_result found;
  found.best = {best, next};
  CHECK(explanation(found) ==
        "best: 80 % of its step are matrix products; the largest of the rest is bubble with 10.0 %.\n"
        "runner-up (pp 1 · dp 1 · tp 1, 1f1b, micro-batch 1, recompute none): 1.50 s slower (15.0 %), most of all by "
        "recompute (2.00 s more), though it saves 500.00 ms of bubble.");
}

TEST_CASE("a config's plan has its values, and those of [plan] and [cluster] where they are set", "[planning]") {
  config c;
  c.parallel.pp = 2;
  c.parallel.zero = 1;
  c.train.recompute = "selective";
  auto run = plan_of_config(c);
  REQUIRE(run);
  CHECK(run->plan.schedule == "1f1b");
  CHECK(run->plan.split_optimizer);
  CHECK(run->plan.recompute == recomputing::selective);
  CHECK(run->plan.numbers.value == 4);
  CHECK(run->on.name == "cpu");
  c.plan.schedule = "interleaved";
  c.plan.chunks = 3;
  c.plan.dtype = "bf16";
  c.cluster.preset = "h100";
  c.cluster.between_gb_per_s = 12.5;
  c.cluster.peak_tflops = 500;
  run = plan_of_config(c);
  REQUIRE(run);
  CHECK(run->plan.schedule == "interleaved");
  CHECK(run->plan.chunks == 3);
  CHECK(run->on.between.bytes_per_s == 12.5e9);
  CHECK(run->on.peak_flops(run->plan.numbers) == 500e12);
  CHECK(run->on.memory_bytes == 80e9);
  c.plan.schedule = "1f1b";
  CHECK(plan_of_config(c).error().where ==
        "plan.chunks: 1f1b has 1 chunk a stage, not 3; interleaved takes any number");
  c.plan.chunks = 0;
  c.parallel.dp = c.parallel.tp = 2000;
  CHECK(plan_of_config(c).error().where ==
        "pp 2 · dp 2000 · tp 2000 are more than 1000000 shards; choose a smaller mesh");
  c.model.kind = "regression";
  CHECK(plan_of_config(c).error().where == "model.kind: costs are known of gpt alone, not of 'regression'");
}
