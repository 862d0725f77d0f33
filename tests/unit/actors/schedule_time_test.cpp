#include "actors/schedule/virtual_time.hpp"

#include "schedule_probe.hpp"

using namespace troupe;

namespace {

struct expectation {
  const char* name;
  double makespan, span, idle;
  std::vector<std::uint32_t> peak;
  std::vector<double> first_backward, end;  // [stage]; empty: not published
};

virtual_run timed(const schedule& s, const stage_costs& costs = {}) {
  auto run = run_in_virtual_time(s, costs);
  REQUIRE(run);
  return *run;
}

double first_backward(const schedule& s, const virtual_run& run, std::size_t stage) {
  for (std::size_t k = 0;; ++k)
    if (s.actions[stage][k].what != pass::forward) return run.actions[stage][k].start;
}

auto about(double value) { return Approx(value).epsilon(1e-12); }

}  // namespace

TEST_CASE("every schedule takes the time that its definition implies for p=4, m=8 in unit times", "[schedule][time]") {
  // Derived from the definitions with F = I = W = 1, hops free; a chunk is a half of a stage where there are two.
  const std::vector<expectation> table = {
      {"gpipe", 33, 33, 9, {8, 8, 8, 8}, {17, 15, 13, 11}, {33, 31, 29, 27}},
      {"1f1b", 33, 33, 9, {4, 3, 2, 1}, {10, 8, 6, 4}, {33, 31, 29, 27}},
      {"interleaved", 28.5, 28.5, 4.5, {11, 9, 7, 5}, {}, {}},
      {"zb-h1", 27, 27, 3, {4, 4, 4, 4}, {7, 6, 5, 4}, {27, 27, 27, 27}},
      {"zb-h2", 27, 24, 3, {7, 7, 7, 7}, {7, 6, 5, 4}, {24, 25, 26, 27}},
      {"zb-v", 25.5, 24, 1.5, {8, 8, 8, 8}, {4, 4.5, 5, 5.5}, {24, 24.5, 25, 25.5}},
  };
  for (const auto& e : table) {
    CAPTURE(e.name);
    const auto s = made(e.name, {4, 8});
    const auto run = timed(s);
    CHECK(run.makespan == about(e.makespan));
    CHECK(run.span == about(e.span));
    CHECK(run.makespan - 24 == about(e.idle));
    CHECK(run.bubble_makespan == about(e.idle / e.makespan));
    CHECK(run.bubble_span == Approx((e.span - 24) / e.span).margin(1e-12));
    CHECK(ideal_bubble(s) == about(e.idle / e.makespan));
    for (std::uint32_t i = 0; i < 4; ++i) {
      CAPTURE(i);
      CHECK(peak_in_flight(s, i) == e.peak[i]);
      if (!e.first_backward.empty()) CHECK(first_backward(s, run, i) == about(e.first_backward[i]));
      if (!e.end.empty()) CHECK(run.actions[i].back().end == about(e.end[i]));
    }
  }
}

TEST_CASE("further cells: the span in unit times for other p and m", "[schedule][time]") {
  struct cells {
    const char* name;
    double p2m4, p4m4, p4m16, p8m32;
  };
  for (const auto& c : {cells{"1f1b", 15, 21, 57, 117}, cells{"zb-h1", 13, 15, 51, 103}, cells{"zb-h2", 12, 15, 48, 96},
                        cells{"interleaved", 13.5, 16.5, 52.5, 106.5}, cells{"zb-v", 12, 15, 48, 96}}) {
    CAPTURE(c.name);
    CHECK(timed(made(c.name, {2, 4})).span == about(c.p2m4));
    CHECK(timed(made(c.name, {4, 4})).span == about(c.p4m4));
    CHECK(timed(made(c.name, {4, 16})).span == about(c.p4m16));
    CHECK(timed(made(c.name, {8, 32})).span == about(c.p8m32));
  }
}

TEST_CASE("dualpipev without overlap takes what its published order takes", "[schedule][time]") {
  const auto s = made("dualpipev", {4, 10});  // chunks of one unit: F = I = W = 2 a stage
  const auto run = timed(s, {2, 2, 2, 0});
  CHECK(run.makespan == about(63));
  CHECK(run.makespan * (1 - run.bubble_makespan) == about(60));
  std::uint32_t most = 0;
  for (std::uint32_t i = 0; i < 4; ++i) most = std::max(most, peak_in_flight(s, i));
  CHECK(most == 9);
}

TEST_CASE("spans follow their closed forms for every p, m and v in unit times", "[schedule][time]") {
  for (std::uint32_t p = 1; p <= 16; ++p)
    for (std::uint32_t m = 1; m <= 64; ++m) {
      CAPTURE(p, m);
      const double ramp = p - 1, work = 3.0 * m;
      for (const auto* name : {"gpipe", "1f1b", "eager-1f1b"}) {
        CAPTURE(name);
        const auto run = timed(made(name, {p, m}));
        CHECK(run.span == about(work + 3 * ramp));
        CHECK(run.makespan == about(work + 3 * ramp));
        CHECK(run.bubble_makespan == Approx(ramp / (m + ramp)).margin(1e-12));
      }
      if (m >= p) CHECK(timed(made("zb-h1", {p, m})).span == about(work + ramp));
      if (m >= 2 * p - 1) CHECK(timed(made("zb-h2", {p, m})).span == about(work));
      if (m >= 2 * p - 1) CHECK(timed(made("zb-v", {p, m})).span == about(work));
      for (std::uint32_t v = 1; v <= 4; ++v) {
        CAPTURE(v);
        if (m % p == 0) CHECK(timed(made("interleaved", {p, m, v})).span == about(work + 3 * ramp / v));
        if (m % p == 0) CHECK(timed(made("forward-only", {p, m, v})).makespan == about(m + ramp / v));
      }
    }
}

TEST_CASE("spans follow their closed forms where F, I and W differ and hops take time", "[schedule][time]") {
  const double f = 10, b = 9, w = 8, s = f + b + w;
  for (std::uint32_t p : {2, 3, 4, 8})
    for (std::uint32_t groups : {2, 3, 8})
      for (double hop : {0.0, 0.05, 0.3}) {
        const auto m = p * groups;
        CAPTURE(p, m, hop);
        const stage_costs costs{f, b, w, hop};
        const double n = m, ramp = p - 1;
        // 1F1B pays for almost every micro-batch, the zero-bubble schedules once.
        CHECK(timed(made("1f1b", {p, m}), costs).span == about((n + ramp) * s + 2 * hop * (ramp * n / p + p - 2)));
        CHECK(timed(made("zb-h1", {p, m}), costs).span == about(n * s + ramp * (f + b - w) + 4 * ramp * hop));
        CHECK(timed(made("zb-h2", {p, m}), costs).span == about(n * s + ramp * (f + b - 2 * w) + 2 * ramp * hop));
        if (hop == 0) CHECK(timed(made("interleaved", {p, m, 2}), costs).span == about(n * s + ramp * s / 2));
      }
}

TEST_CASE("eager 1f1b hides the hops that 1f1b pays for", "[schedule][time]") {
  const stage_costs costs{1, 1, 1, 0.5};
  CHECK(timed(made("1f1b", {4, 16})).makespan == about(57));
  CHECK(timed(made("1f1b", {4, 16}), costs).makespan == about(71));
  CHECK(timed(made("eager-1f1b", {4, 16}), costs).makespan == about(60));
}

TEST_CASE("every action starts as soon as its stage is free and its inputs are there", "[schedule][time]") {
  for (const auto name : schedule_names()) {
    const auto s = made(name, {3, 7});
    const double hop = 0.25;
    const auto run = timed(s, {1.5, 1.25, 0.75, hop});
    std::map<probe_key, std::pair<double, std::uint32_t>> ended;  // when, on which stage
    for (std::uint32_t i = 0; i < s.stages; ++i)
      for (std::size_t k = 0; k < s.actions[i].size(); ++k) {
        const auto& a = s.actions[i][k];
        ended[{where(s, i, a.chunk), a.micro_batch, a.what}] = {run.actions[i][k].end, i};
      }
    for (std::uint32_t i = 0; i < s.stages; ++i)
      for (std::size_t k = 0; k < s.actions[i].size(); ++k) {
        const auto& a = s.actions[i][k];
        double from = k == 0 ? 0 : run.actions[i][k - 1].end;
        for (const auto& alternatives : inputs_of(s, {where(s, i, a.chunk), a.micro_batch, a.what}))
          for (const auto& key : alternatives)
            if (const auto e = ended.find(key); e != ended.end())
              from = std::max(from, e->second.first + (e->second.second == i ? 0 : hop));
        CAPTURE(name, i, to_string(a, s.chunks));
        CHECK(run.actions[i][k].start == about(from));
      }
  }
}

TEST_CASE("a schedule that cannot end has no time", "[schedule][time]") {
  auto s = made("1f1b", {2, 2});
  std::swap(s.actions[1][0], s.actions[1][1]);
  CHECK_FALSE(run_in_virtual_time(s, stage_costs{}));
}
