#include "actors/schedule/schedule.hpp"

#include <sstream>

#include "actors/schedule/generators.hpp"
#include "schedule_probe.hpp"

using namespace troupe;

namespace {

// "Fa0-3 Bb0" is "Fa0 Fa1 Fa2 Fa3 Bb0".
std::string expanded(const std::string& text) {
  std::istringstream in(text);
  std::string all;
  for (std::string word; in >> word;) {
    const auto number = word.find_first_of("0123456789"), dash = word.find('-');
    const int first = std::stoi(word.substr(number)),
              last = dash == word.npos ? first : std::stoi(word.substr(dash + 1));
    for (int n = first; n <= last; ++n) all += (all.empty() ? "" : " ") + word.substr(0, number) + std::to_string(n);
  }
  return all;
}

void check_orders(const schedule& s, const std::vector<std::string>& expected) {
  REQUIRE(s.actions.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(s.name, i);
    CHECK(order(s, i) == expanded(expected[i]));
  }
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

}  // namespace

// Orders for p = 4, m = 8, from the definitions in the papers that generators.hpp names.

TEST_CASE("gpipe runs all forwards, then all backwards", "[schedule]") {
  check_orders(make_gpipe({4, 8}), std::vector<std::string>(4, "F0-7 B0-7"));
}

TEST_CASE("1f1b runs the order that the literature prints", "[schedule]") {
  check_orders(make_1f1b({4, 8}),
               {"F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7", "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7",
                "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7", "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7"});
}

TEST_CASE("eager 1f1b runs twice as far ahead as 1f1b", "[schedule]") {
  check_orders(make_eager_1f1b({4, 8}),
               {"F0-6 B0 F7 B1-7", "F0-4 B0 F5 B1 F6 B2 F7 B3-7", "F0-2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5-7",
                "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7"});
}

TEST_CASE("interleaved with two chunks runs the order of Megatron-LM", "[schedule]") {
  check_orders(
      make_interleaved({4, 8, 2}),
      {"Fa0-3 Fb0-3 Fa4 Fa5 Fa6 Bb0 Fa7 Bb1 Fb4 Bb2 Fb5 Bb3 Fb6 Ba0 Fb7 Ba1 Ba2 Ba3 Bb4-7 Ba4-7",
       "Fa0-3 Fb0-3 Fa4 Bb0 Fa5 Bb1 Fa6 Bb2 Fa7 Bb3 Fb4 Ba0 Fb5 Ba1 Fb6 Ba2 Fb7 Ba3 Bb4-7 Ba4-7",
       "Fa0-3 Fb0 Fb1 Fb2 Bb0 Fb3 Bb1 Fa4 Bb2 Fa5 Bb3 Fa6 Ba0 Fa7 Ba1 Fb4 Ba2 Fb5 Ba3 Fb6 Bb4 Fb7 Bb5-7 Ba4-7",
       "Fa0-3 Fb0 Bb0 Fb1 Bb1 Fb2 Bb2 Fb3 Bb3 Fa4 Ba0 Fa5 Ba1 Fa6 Ba2 Fa7 Ba3 Fb4 Bb4 Fb5 Bb5 Fb6 Bb6 Fb7 Bb7 Ba4-7"});
}

TEST_CASE("zb-h1 keeps 1f1b's warm-up and lets each W lag by the stage's number", "[schedule]") {
  check_orders(make_zb_h1({4, 8}), {"F0 F1 F2 F3 I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 I6 W6 I7 W7",
                                    "F0 F1 F2 I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 I7 W6 W7",
                                    "F0 F1 I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5 W6 W7",
                                    "F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 W5 W6 W7"});
}

TEST_CASE("zb-h2 warms up twice as long and lets each W lag twice as much", "[schedule]") {
  check_orders(make_zb_h2({4, 8}), {"F0-6 I0 W0 F7 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 I6 W6 I7 W7",
                                    "F0-4 I0 F5 I1 F6 I2 W0 F7 I3 W1 I4 W2 I5 W3 I6 W4 I7 W5 W6 W7",
                                    "F0-2 I0 F3 I1 F4 I2 F5 I3 F6 I4 W0 F7 I5 W1 I6 W2 I7 W3-7",
                                    "F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 F5 I5 F6 I6 W0 F7 I7 W1-7"});
}

TEST_CASE("zb-v goes down through one chunk and up through the other", "[schedule]") {
  const auto s = make_zb_v({4, 8});
  CHECK(order(s, 0) == expanded("Fa0-6 Fb0 Ib0 Wb0 Fb1 Ib1 Wb1 Fb2 Ib2 Wb2 Fb3 Ib3 Wb3 Fa7 Ia0 Wa0 Fb4 Ib4 Wb4 Ia1 Wa1 "
                                "Fb5 Ib5 Wb5 Ia2 Wa2 Fb6 Ib6 Wb6 Ia3 Wa3 Fb7 Ib7 Wb7 Ia4 Wa4 Ia5 Wa5 Ia6 Wa6 Ia7 Wa7"));
  CHECK(order(s, 3) ==
        expanded("Fa0 Fb0 Fa1 Fb1 Fa2 Fb2 Fa3 Fb3 Ib0 Wb0 Fa4 Ia0 Wa0 Fb4 Ib1 Wb1 Fa5 Ia1 Wa1 Fb5 Ib2 Wb2 "
                 "Fa6 Ia2 Wa2 Fb6 Ib3 Wb3 Fa7 Ia3 Wa3 Fb7 Ib4 Wb4 Ia4 Ib5 Ia5 Ib6 Ia6 Ib7 Ia7 Wa4 Wb5 Wb6 "
                 "Wb7 Wa5 Wa6 Wa7"));
}

TEST_CASE("dualpipev pairs a forward of one chunk with a backward of the other", "[schedule]") {
  // The order that DualPipe's repository implements for its V shape, 4 stages and 10 micro-batches: the first and last
  // stage.
  const auto s = make_dualpipev({4, 10});
  CHECK(order(s, 0) ==
        expanded("Fa0-6 Fb0 Ib0 Wb0 Fb1 Ib1 Wb1 Fb2 Ib2 Wb2 Fb3 Fa7 Bb3 Fb4 Ba0 Fa8 Bb4 Fb5 Ba1 Fa9 Bb5 Fb6 "
                 "Ba2 Bb6 Fb7 Ba3 Bb7 Fb8 Ba4 Bb8 Fb9 Ba5 Bb9 Ia6 Wa6 Ia7 Wa7 Ia8 Wa8 Ia9 Wa9"));
  CHECK(order(s, 3) ==
        expanded("Fa0 Fb0 Fa1 Fb1 Fa2 Fb2 Fa3 Fb3 Fa4 Bb0 Fb4 Ba0 Fa5 Bb1 Fb5 Ba1 Fa6 Bb2 Fb6 Ba2 Fa7 Bb3 Fb7 "
                 "Ba3 Fa8 Bb4 Fb8 Ba4 Fa9 Bb5 Fb9 Ba5 Bb6 Ba6 Bb7 Ba7 Ib8 Ia8 Ib9 Ia9 Wb8 Wa8 Wb9 Wa9"));
}

TEST_CASE("forward-only takes groups of p micro-batches through chunk after chunk", "[schedule]") {
  check_orders(make_forward_only({2, 3}), {"F0-2", "F0-2"});
  check_orders(make_forward_only({2, 4, 2}), std::vector<std::string>(2, "Fa0 Fa1 Fb0 Fb1 Fa2 Fa3 Fb2 Fb3"));
}

TEST_CASE("interleaved splits a ragged number of micro-batches into groups of at least p", "[schedule]") {
  check_orders(make_forward_only({2, 5, 2}), std::vector<std::string>(2, "Fa0-2 Fb0-2 Fa3 Fa4 Fb3 Fb4"));
  check_orders(make_forward_only({4, 3, 2}), std::vector<std::string>(4, "Fa0-2 Fb0-2"));
  // The last stage must hold both chunks of the first, larger group before its first backward.
  CHECK(order(make_interleaved({2, 5, 2}), 1) ==
        expanded("Fa0-2 Fb0 Bb0 Fb1 Bb1 Fb2 Bb2 Fa3 Ba0 Fa4 Ba1 Fb3 Ba2 Fb4 Bb3 Bb4 Ba3 Ba4"));
}

TEST_CASE("warm-up and peak in flight follow their closed forms for every p, m and v", "[schedule]") {
  for (std::uint32_t p = 1; p <= 16; ++p)
    for (std::uint32_t m = 1; m <= 64; ++m) {
      const auto gpipe = make_gpipe({p, m}), one = make_1f1b({p, m}), eager = make_eager_1f1b({p, m}),
                 h1 = make_zb_h1({p, m}), h2 = make_zb_h2({p, m}), v = make_zb_v({p, m});
      for (std::uint32_t i = 0; i < p; ++i) {
        CAPTURE(p, m, i);
        // The warm-up forwards, and the forward of the first pair, as far as there are micro-batches.
        CHECK(warm_up(gpipe, i) == m);
        CHECK(warm_up(one, i) == std::min(p - i, m));
        CHECK(warm_up(eager, i) == std::min(2 * (p - i) - 1, m));
        CHECK(warm_up(h1, i) == std::min(p - i, m));
        CHECK(warm_up(h2, i) == std::min(2 * (p - i) - 1, m));
        CHECK(peak_in_flight(gpipe, i) == m);
        CHECK(peak_in_flight(one, i) == std::min(p - i, m));
        CHECK(peak_in_flight(eager, i) == std::min(2 * (p - i) - 1, m));
        CHECK(peak_in_flight(h1, i) == std::min(p, m));
        CHECK(peak_in_flight(h2, i) == std::min(2 * p - 1, m));
        CHECK(peak_in_flight(v, i) == std::min(2 * p - 1 - i, m) + std::min(i + 1, m));  // 2p when m is large enough
        CHECK(peak_in_flight(make_forward_only({p, 1}), i) == 0);
      }
      for (std::uint32_t chunks = 1; chunks <= 4 && m % p == 0; ++chunks) {
        const auto inter = make_interleaved({p, m, chunks});
        for (std::uint32_t i = 0; i < p; ++i) {
          CAPTURE(p, m, chunks, i);
          CHECK(peak_in_flight(inter, i) == std::min(chunks * m, 2 * (p - 1 - i) + (chunks - 1) * p + 1));
        }
      }
    }
}

TEST_CASE("a chunk knows its place in the model, and the model its chunk's", "[schedule]") {
  const auto looped = make_interleaved({4, 8, 3}), v = make_zb_v({4, 8});
  CHECK(looped.virtual_stage(1, 2) == 9);
  CHECK(place_of(looped, 9) == chunk_place{1, 2});
  CHECK(v.virtual_stage(1, 0) == 1);
  CHECK(v.virtual_stage(1, 1) == 6);
  CHECK(place_of(v, 7) == chunk_place{0, 1});
  for (const auto* s : {&looped, &v})
    for (std::uint32_t i = 0; i < s->virtual_stages(); ++i) {
      const auto place = place_of(*s, i);
      CHECK(s->virtual_stage(place.stage, place.chunk) == i);
    }
}

TEST_CASE("an unknown schedule, or a shape it cannot have, is refused", "[schedule]") {
  const auto complaint = [](std::string_view name, schedule_shape shape) {
    const auto s = make_schedule(name, shape);
    return s ? "" : s.error().where;
  };
  CHECK(complaint("2f2b", {2, 2}) ==
        "no schedule is named '2f2b'; there are: gpipe, 1f1b, eager-1f1b, interleaved, zb-h1, "
        "zb-h2, zb-v, dualpipev, pipedream, pipedream-2bw, forward-only");
  CHECK(complaint("1f1b", {0, 2}) == "a schedule has 1 to 65535 stages, not 0");
  CHECK(complaint("1f1b", {2, 0}) == "a schedule has 1 to 1000000 micro-batches, not 0");
  CHECK(complaint("1f1b", {2, 4, 2}) == "1f1b has 1 chunk a stage, not 2; interleaved takes any number");
  CHECK(complaint("zb-v", {2, 4, 3}) == "zb-v has 2 chunks a stage, not 3; interleaved takes any number");
  CHECK(complaint("zb-v", {2, 4}).empty());
  CHECK(complaint("interleaved", {2, 4, 7}).empty());
  CHECK_FALSE(complaint("interleaved", {2, 4, 5'000}).empty());
  CHECK_FALSE(complaint("gpipe", {65'535, 1'000'000}).empty());
  CHECK_FALSE(complaint("zb-v", {65'535, 1}).empty());  // it is made for many micro-batches first
}

TEST_CASE("shards run the schedules that train with one chunk a stage", "[schedule]") {
  CHECK(runnable_schedule_names() == std::vector<std::string_view>{"gpipe", "1f1b", "eager-1f1b", "zb-h1", "zb-h2"});
}
