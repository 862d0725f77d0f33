#include "actors/schedule/weight_versions.hpp"

#include "actors/schedule/virtual_time.hpp"
#include "schedule_probe.hpp"

using namespace troupe;

namespace {

using versions = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("PipeDream's micro-batches meet the weights of their paper", "[schedule]") {
  // arXiv:1806.03377 with four stages.
  const auto v = pipedream_versions(made("pipedream", {4, 6}));
  CHECK(v.used[0] == versions{0, 0, 0, 0, 1, 2});
  CHECK(v.used[1] == versions{0, 0, 0, 1, 2, 3});
  CHECK(v.used[2] == versions{0, 0, 1, 2, 3, 4});
  CHECK(v.used[3] == versions{0, 1, 2, 3, 4, 5});
}

TEST_CASE("PipeDream keeps p - i versions, and a micro-batch is p - 1 - i updates late", "[schedule]") {
  for (std::uint32_t p = 1; p <= 6; ++p)
    for (std::uint32_t m : {1U, 2U, 5U, 20U}) {
      const auto s = made("pipedream", {p, m});
      const auto v = pipedream_versions(s);
      for (std::uint32_t i = 0; i < p; ++i) {
        CAPTURE(p, m, i);
        const auto late = p - 1 - i;
        for (std::uint32_t j = 0; j < m; ++j) CHECK(v.used[i][j] == (j > late ? j - late : 0));
        if (m > 2 * p) CHECK(v.most_kept[i] == p - i);
        CHECK(peak_in_flight(s, i) == std::min(p - i, m));
      }
    }
}

TEST_CASE("double-buffered weights are one step late on every stage, and two are kept", "[schedule]") {
  const auto v = double_buffered_versions(made("pipedream-2bw", {4, 16}), 4);
  REQUIRE(v);
  // arXiv:2006.09503, section 3.1: for steps of 4, eight micro-batches with the first weights, then four with each.
  for (const auto& used : v->used) CHECK(used == versions{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2});
  for (std::uint32_t p = 1; p <= 6; ++p)
    for (std::uint32_t step = std::max(p - 1, 1U); step <= p + 2; ++step) {
      CAPTURE(p, step);
      const auto any = double_buffered_versions(made("pipedream-2bw", {p, 5 * step}), step);
      REQUIRE(any);
      for (std::uint32_t i = 0; i < p; ++i) {
        CHECK(any->most_kept[i] == 2);
        for (std::uint32_t j = 0; j < 5 * step; ++j) CHECK(any->used[i][j] == (j < step ? 0 : j / step - 1));
      }
    }
}

TEST_CASE("steps too small for two versions are refused", "[schedule]") {
  const auto s = made("pipedream-2bw", {5, 12});
  CHECK(double_buffered_versions(s, 3).error().where ==
        "stage 0 runs F6 with the weights of update 1, which is not there yet; a step needs at least 4 micro-batches");
  CHECK_FALSE(double_buffered_versions(s, 0));
}

TEST_CASE("a stream pays its fill and drain once, whatever its length", "[schedule]") {
  for (std::uint32_t p : {2U, 4U, 8U})
    for (std::uint32_t m : {8U, 64U, 512U}) {
      CAPTURE(p, m);
      const auto run = run_in_virtual_time(made("pipedream", {p, m}), stage_costs{1, 1, 1, 0});
      REQUIRE(run);
      CHECK(run->makespan == Approx(3.0 * (m + p - 1)));
      // A barrier after every 8 of them pays it as often.
      const auto step = run_in_virtual_time(made("1f1b", {p, 8}), stage_costs{1, 1, 1, 0});
      REQUIRE(step);
      CHECK(m / 8 * step->makespan - run->makespan == Approx(3.0 * (p - 1) * (m / 8 - 1)));
    }
}

TEST_CASE("no run takes an asynchronous schedule", "[schedule]") {
  for (const auto* name : {"pipedream", "pipedream-2bw"}) {
    CHECK(made(name, {2, 4}).asynchronous);
    const auto runnable = runnable_schedule_names();
    CHECK(std::ranges::find(runnable, name) == runnable.end());
  }
  CHECK_FALSE(made("1f1b", {2, 4}).asynchronous);
}
