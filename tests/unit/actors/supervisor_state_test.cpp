#include "actors/supervisor/supervisor_state.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "actors/schedule/generators.hpp"
#include "catch.hpp"

using namespace troupe;

namespace {

cluster_settings three_stages() {
  cluster_settings s;
  s.extents = {3, 1, 1};
  s.split = {1, 1, 1};
  s.plan = make_1f1b({3, 2});
  s.steps = 3;
  s.target_rows = 64;
  s.clip = 1;
  s.grant_ahead = 2;
  s.learning_rate = [](std::uint64_t step) { return 0.5F / static_cast<float>(step + 1); };
  return s;
}

shard_step part(std::uint64_t step, std::uint16_t stage) {
  shard_step p{step, {}, {}, {{0, stage, 0}, {}, {}}};
  if (stage == 2) p.losses = {0.1F, 0.7F};
  p.norms = {{stage * 2U, 0.1 * (stage + 1)}, {stage * 2U + 1, 1e-17}};
  p.timeline.actions = {{{pass::forward, 0, 0}, 100 + stage * 10, 110 + stage * 10}};
  return p;
}

shard_id stage_shard(std::uint16_t stage) { return {0, stage, 0}; }

}  // namespace

TEST_CASE("a step is committed when the last shard has reported, with the same bits in any order", "[supervisor]") {
  std::vector<std::uint16_t> order{0, 1, 2};
  const auto settings = three_stages();
  std::optional<std::uint64_t> loss_bits, norm_bits;
  do {
    supervisor_state judge(&settings);
    judge.begin(0);
    CHECK_FALSE(judge.take(stage_shard(order[0]), part(0, order[0]), 10));
    CHECK_FALSE(judge.take(stage_shard(order[1]), part(0, order[1]), 20));
    const auto done = judge.take(stage_shard(order[2]), part(0, order[2]), 2'000'000'000);
    REQUIRE(done);
    CHECK(done->report.loss == Approx(0.8));
    CHECK(done->report.step_s == Approx(2.0));
    CHECK(done->report.tokens_per_s == Approx(32));
    CHECK(done->update.learning_rate == 0.5F);
    const auto loss = std::bit_cast<std::uint64_t>(done->report.loss),
               norm = std::bit_cast<std::uint64_t>(done->report.grad_norm);
    CHECK(loss_bits.value_or(loss) == loss);
    CHECK(norm_bits.value_or(norm) == norm);
    loss_bits = loss;
    norm_bits = norm;
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("a report that is late, early or second is ignored", "[supervisor]") {
  const auto settings = three_stages();
  supervisor_state judge(&settings);
  CHECK_FALSE(judge.take(stage_shard(0), part(1, 0), 0));
  CHECK_FALSE(judge.take(stage_shard(0), part(0, 0), 0));
  CHECK_FALSE(judge.take(stage_shard(0), part(0, 0), 0));
  CHECK_FALSE(judge.take(stage_shard(9), part(0, 9), 0));
  CHECK_FALSE(judge.take(stage_shard(1), part(0, 1), 0));
  CHECK(judge.take(stage_shard(2), part(0, 2), 0));
  CHECK(judge.next_step() == 1);
  CHECK_FALSE(judge.take(stage_shard(2), part(0, 2), 0));
}

TEST_CASE("the gradient is scaled down to the clip and never up", "[supervisor]") {
  auto settings = three_stages();
  const auto scale_at = [&](float clip) {
    settings.clip = clip;
    supervisor_state judge(&settings);
    (void)judge.take(stage_shard(0), part(0, 0), 0);
    (void)judge.take(stage_shard(1), part(0, 1), 0);
    return judge.take(stage_shard(2), part(0, 2), 0)->update.gradient_scale;
  };
  const double norm = std::sqrt(0.1 + 0.2 + 0.3);
  CHECK(scale_at(0.5F) == Approx(0.5 / norm));
  CHECK(scale_at(1.0F) == 1.0F);
  CHECK(scale_at(0.0F) == 1.0F);  // off
}

TEST_CASE("grants run ahead of commits and end with the run", "[supervisor]") {
  const auto settings = three_stages();
  supervisor_state judge(&settings);
  CHECK(judge.granted() == 2);
  for (std::uint64_t step = 0; step < 3; ++step)
    for (std::uint16_t s = 0; s < 3; ++s) (void)judge.take(stage_shard(s), part(step, s), 0);
  CHECK(judge.all_committed());
  CHECK(judge.granted() == 3);
}

TEST_CASE("the culprit sentence says who, where, why, and what the others did", "[supervisor]") {
  progress_cell cell;
  cell.set(progress_cell::phase::backward, 41, 3);
  CHECK(culprit_sentence({0, 2, 1}, "n2", 4711, cause_of({9, 0}), cell) ==
        "shard r0/s2/t1 on n2 (pid 4711): killed by signal 9 at step 41, micro-batch 3, backward; the others waited");
  cell.set(progress_cell::phase::waiting, 1, 2);
  CHECK(
      culprit_sentence({0, 0, 0}, "a", 0, cause_of({0, 5}), cell) ==
      "shard r0/s0/t0 on a: ended with exit code 5 at step 1, micro-batch 2, waiting for its input; the others waited");
}

TEST_CASE("a measured bubble is the idle share of stages times makespan", "[supervisor]") {
  // Two stages, makespan 10: stage 0 is busy for 6, stage 1 for 8.
  std::vector<shard_timeline> t(2);
  t[0].actions = {{{}, 0, 4}, {{}, 8, 10}};
  t[1].actions = {{{}, 1, 9}};
  CHECK(measured_bubble(t) == Approx(1 - 14.0 / 20));
  CHECK(measured_bubble({}) == 0);
}

TEST_CASE("a head refuses extents that its split, schedule or cells do not fit, and starts nothing", "[supervisor]") {
  struct : run_listener {
    void step_committed(const step_report&) override {}
    void event(const run_event&) override {}
  } nobody;
  std::vector<progress_cell> three(3), two(2);
  const auto refused = [&](cluster_settings s, std::span<progress_cell> cells) {
    s.processes = false;
    const auto head = cluster_head::start(std::move(s), nobody, cells, nullptr, {});
    return !head && head.error().code == errc::invalid_argument;
  };
  CHECK(refused(three_stages(), two));
  auto split = three_stages(), plan = three_stages(), replicas = three_stages();
  split.split = {1, 2};
  plan.plan = make_1f1b({2, 2});
  replicas.extents.replicas = 2;
  CHECK(refused(split, three));
  CHECK(refused(plan, three));
  CHECK(refused(replicas, three));
}
