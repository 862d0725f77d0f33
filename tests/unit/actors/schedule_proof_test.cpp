#include "actors/schedule/validate.hpp"

#include <fmt/format.h>

#include "actors/schedule/generators.hpp"
#include "actors/schedule/virtual_time.hpp"
#include "schedule_probe.hpp"

using namespace troupe;

namespace {

std::uint32_t below(std::mt19937& random, std::size_t n) { return static_cast<std::uint32_t>(random() % n); }

// Any schedule, of a small random shape.
schedule some_schedule(std::mt19937& random) {
  const auto names = schedule_names();
  const auto name = names[below(random, names.size())];
  const bool any_chunks = name == "interleaved" || name == "forward-only";
  return made(name, {1 + below(random, 6), 1 + below(random, 12), any_chunks ? 1 + below(random, 4) : 0});
}

std::string complaint(const schedule& s) {
  const auto ok = validate(s);
  return ok ? "" : ok.error().where;
}

}  // namespace

TEST_CASE("every generated schedule is proved, for every p, m and v", "[schedule][proof]") {
  std::size_t count = 0;
  for (const auto name : schedule_names())
    for (std::uint32_t p = 1; p <= 16; ++p)
      for (std::uint32_t m = 1; m <= 64; ++m)
        for (std::uint32_t v = 1; v <= 4; ++v) {
          const bool any_chunks = name == "interleaved" || name == "forward-only";
          if (!any_chunks && v > 1) break;
          const auto s = made(name, {p, m, any_chunks ? v : 0});
          if (p <= 5 && m <= 11 && !valid_by_brute_force(s)) FAIL(name << " p=" << p << " m=" << m << " v=" << v);
          ++count;
        }
  CHECK(count == 16 * 64 * (9 + 2 * 4));
}

TEST_CASE("a violation names the stage, the action and what is missing", "[schedule][proof]") {
  auto s = make_1f1b({3, 4});  // stage 1: F0 F1 B0 F2 B1 F3 B2 B3
  SECTION("valid") { CHECK(complaint(s).empty()); }
  SECTION("dropped forward") {
    std::erase(s.actions[1], action{pass::forward, 2, 0});
    CHECK(complaint(s) == "stage 1 lacks F2");
  }
  SECTION("dropped backward") {
    std::erase(s.actions[2], action{pass::backward, 3, 0});
    CHECK(complaint(s) == "stage 2 lacks B3");
  }
  SECTION("twice") {
    s.actions[0].push_back({pass::backward, 1, 0});
    CHECK(complaint(s) == "stage 0 has B1 twice");
  }
  SECTION("no such micro-batch or chunk") {
    s.actions[0].push_back({pass::backward, 4, 0});
    CHECK(complaint(s) == "stage 0 has B4, but the schedule has 4 micro-batches and 1 chunks a stage");
    s.actions[0].back() = {pass::backward, 3, 1};
    CHECK_FALSE(complaint(s).empty());
  }
  SECTION("backward before its forward") {
    std::swap(s.actions[2][0], s.actions[2][1]);
    CHECK(complaint(s) == "stage 0 can never run B0 (its action 3): B0 of stage 1 does not come before it");
  }
  SECTION("each waits for the other") {
    // Stage 1 wants micro-batch 0 back before it passes on micro-batch 1; stage 2 wants both first.
    s.actions[1] = {{pass::forward, 0, 0}, {pass::backward, 0, 0}, {pass::forward, 1, 0}, {pass::backward, 1, 0},
                    {pass::forward, 2, 0}, {pass::backward, 2, 0}, {pass::forward, 3, 0}, {pass::backward, 3, 0}};
    s.actions[2] = make_gpipe({1, 4}).actions[0];
    s.most_in_flight.clear();
    CHECK(complaint(s) == "stage 0 can never run B0 (its action 3): B0 of stage 1 does not come before it");
  }
  SECTION("more activations than declared") {
    s.actions = make_gpipe({3, 4}).actions;
    CHECK(complaint(s) == "stage 0 holds 4 activations at once, more than the 3 that 1f1b declares");
    s.most_in_flight.clear();
    CHECK(complaint(s).empty());
  }
  SECTION("both whole and split") {
    s.actions[0].push_back({pass::backward_weight, 1, 0});
    CHECK(complaint(s) == "stage 0 has B1, and W1 too");
  }
  SECTION("half a backward") {
    auto half = make_zb_h1({3, 4});
    std::erase(half.actions[1], action{pass::backward_weight, 3, 0});
    CHECK(complaint(half) == "stage 1 lacks W3");
    half = make_zb_h1({3, 4});
    std::erase(half.actions[1], action{pass::backward_input, 3, 0});
    CHECK(complaint(half) == "stage 1 lacks I3");
  }
  SECTION("W before I") {
    auto half = make_zb_h1({1, 2});  // F0 I0 W0 F1 I1 W1
    std::swap(half.actions[0][1], half.actions[0][2]);
    CHECK(complaint(half) == "stage 0 can never run W0 (its action 1): I0 of stage 0 does not come before it");
  }
  SECTION("a backward where there are only forwards") {
    auto forwards = make_forward_only({2, 2});
    forwards.actions[0].push_back({pass::backward, 0, 0});
    CHECK(complaint(forwards) == "stage 0 has B0 in a schedule of forwards");
  }
  SECTION("lists that do not match the shape") {
    s.actions.pop_back();
    CHECK(complaint(s) == "3 stages, but 2 lists of actions");
    CHECK_FALSE(complaint(schedule{}).empty());
  }
}

TEST_CASE("a thousand broken schedules are refused, and what a swap left whole is not", "[schedule][proof]") {
  std::mt19937 random(20'240'501);
  int refused = 0, harmless = 0;
  while (refused < 1'000) {
    auto s = some_schedule(random);
    auto& stage = s.actions[below(random, s.actions.size())];
    const auto how = below(random, 3);
    const auto one = below(random, stage.size()), other = below(random, stage.size());
    if (how == 0) std::swap(stage[one], stage[other]);
    if (how == 1) stage.erase(stage.begin() + one);
    if (how == 2) stage.insert(stage.begin() + other, action(stage[one]));
    const bool valid = valid_by_brute_force(s), accepted = static_cast<bool>(validate(s));
    CAPTURE(s.name, s.stages, s.micro_batches, s.chunks, how, one, other);
    CHECK(accepted == valid);
    CHECK((how == 0 || !accepted));
    (valid ? harmless : refused) += 1;
  }
  CHECK(harmless > 0);
  fmt::print("broken schedules: {} refused; {} swaps left a schedule that is valid, and were accepted\n", refused,
             harmless);
}

TEST_CASE("an accepted schedule ends under a thousand random timings", "[schedule][proof]") {
  for (std::uint32_t seed = 0; seed < 1'000; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto s = some_schedule(random);
    CAPTURE(s.name, s.stages, s.micro_batches, s.chunks);
    CHECK(ends_in_some_order(s, random));
    // Mostly short times and a few very long ones.
    std::lognormal_distribution<double> delay(0, 2);
    const auto run = run_in_virtual_time(
        s, [&](std::uint32_t, const action&) { return delay(random); },
        [&](std::uint32_t, std::uint32_t) { return delay(random); });
    REQUIRE(run);
    for (std::uint32_t i = 0; i < s.stages; ++i) CHECK(run->actions[i].size() == s.actions[i].size());
  }
}
