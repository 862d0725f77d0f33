#include "actors/schedule/schedule.hpp"

#include <algorithm>
#include <map>

#include "catch.hpp"

using namespace troupe;

namespace {

std::string order(const schedule& s, std::size_t stage) {
  std::string text;
  for (const auto& a : s.actions[stage]) text += (text.empty() ? "" : " ") + to_string(a);
  return text;
}

// Forwards before the first backward.
std::uint32_t warm_up(const schedule& s, std::uint32_t stage) {
  std::uint32_t n = 0;
  for (const auto& a : s.actions[stage]) {
    if (a.what != pass::forward) break;
    ++n;
  }
  return n;
}

// Each micro-batch goes forward once and then backward once.
void check_each_once(const schedule& s, std::uint32_t stage) {
  std::map<std::uint32_t, int> forwards, backwards;
  for (const auto& a : s.actions[stage]) {
    if (a.what == pass::forward) ++forwards[a.micro_batch];
    if (a.what == pass::backward) {
      ++backwards[a.micro_batch];
      CHECK(forwards[a.micro_batch] == 1);
    }
  }
  CHECK(forwards.size() == s.micro_batches);
  CHECK(forwards == backwards);
  CHECK(s.actions[stage].size() == 2 * s.micro_batches);
}

}  // namespace

TEST_CASE("1f1b runs the order that the literature prints for p=4, m=8", "[schedule]") {
  const auto s = make_1f1b({4, 8});
  CHECK(order(s, 0) == "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7");
  CHECK(order(s, 1) == "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7");
  CHECK(order(s, 2) == "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7");
  CHECK(order(s, 3) == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7");
}

TEST_CASE("gpipe runs all forwards, then all backwards", "[schedule]") {
  const auto s = make_gpipe({3, 4});
  for (std::size_t stage = 0; stage < 3; ++stage) CHECK(order(s, stage) == "F0 F1 F2 F3 B0 B1 B2 B3");
}

TEST_CASE("warm-up, peak in flight and bubble follow their closed forms for every p and m", "[schedule]") {
  for (std::uint32_t p = 1; p <= 8; ++p)
    for (std::uint32_t m = 1; m <= 16; ++m) {
      CAPTURE(p, m);
      const auto one = make_1f1b({p, m}), all = make_gpipe({p, m});
      const double bubble = static_cast<double>(p - 1) / (m + p - 1);
      CHECK(ideal_bubble(one) == Approx(bubble).margin(1e-12));
      CHECK(ideal_bubble(all) == Approx(bubble).margin(1e-12));
      for (std::uint32_t i = 0; i < p; ++i) {
        CAPTURE(i);
        // p-1-i warm-up forwards, and the forward of the first pair, as far as there are micro-batches.
        CHECK(warm_up(one, i) == std::min(p - i, m));
        CHECK(warm_up(all, i) == m);
        CHECK(peak_in_flight(one, i) == std::min(p - i, m));
        CHECK(peak_in_flight(all, i) == m);
        check_each_once(one, i);
        check_each_once(all, i);
      }
    }
}

TEST_CASE("an unknown schedule is refused with the names of the known ones", "[schedule]") {
  const auto s = make_schedule("2f2b", {2, 2});
  REQUIRE_FALSE(s);
  CHECK(s.error().where == "no schedule is named '2f2b'; there are: gpipe, 1f1b");
  CHECK_FALSE(make_schedule("1f1b", {0, 2}));
  CHECK_FALSE(make_schedule("1f1b", {2, 0}));
}

TEST_CASE("a schedule prints a line a stage", "[schedule]") {
  CHECK(to_text(make_1f1b({2, 2})) == "s0   F0 F1 B0 B1\ns1   F0 B0 F1 B1\n");
}
