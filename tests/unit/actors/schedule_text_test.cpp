#include "actors/schedule/schedule_text.hpp"

#include "actors/schedule/generators.hpp"
#include "schedule_probe.hpp"

using namespace troupe;

namespace {

std::string complaint(std::string_view csv) {
  const auto s = from_csv(csv, "read");
  return s ? "" : s.error().where;
}

}  // namespace

TEST_CASE("a schedule prints a line a stage", "[schedule][text]") {
  CHECK(to_text(make_1f1b({2, 2})) == "s0   F0 F1 B0 B1\ns1   F0 B0 F1 B1\n");
  CHECK(to_text(make_zb_v({1, 1})) == "s0   Fa0 Fb0 Ib0 Wb0 Ia0 Wa0\n");
}

TEST_CASE("names and peaks come stage by stage", "[schedule][text]") {
  const auto s = make_zb_h1({2, 2});
  CHECK(action_names(s) == std::vector<std::vector<std::string>>{{"F0", "F1", "I0", "W0", "I1", "W1"},
                                                                 {"F0", "I0", "F1", "I1", "W0", "W1"}});
  CHECK(peaks_in_flight(s) == std::vector<std::uint32_t>{2, 2});
}

TEST_CASE("the 27th chunk is aa", "[schedule][text]") {
  CHECK(to_string(action{pass::forward, 3, 25}, 30) == "Fz3");
  CHECK(to_string(action{pass::forward, 3, 26}, 30) == "Faa3");
  CHECK(to_string(action{pass::forward, 3, 0}, 1) == "F3");
}

TEST_CASE("csv names virtual stages", "[schedule][text]") {
  CHECK(to_csv(make_1f1b({2, 2})) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK(to_csv(make_zb_h1({2, 1})) == "0F0,0I0,0W0\n1F0,1I0,1W0\n");
  CHECK(to_csv(make_interleaved({2, 1, 2})) == "0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n");
  CHECK(to_csv(make_forward_only({2, 1, 2})) == "0F0,2F0\n1F0,3F0\n");
}

TEST_CASE("what was written as csv is read back, whatever the schedule", "[schedule][text]") {
  for (const auto name : schedule_names())
    for (std::uint32_t p : {2, 3, 4})
      for (std::uint32_t m : {1, 3, 8}) {
        const auto s = made(name, {p, m});
        const auto back = from_csv(to_csv(s), name);
        CAPTURE(name, p, m);
        REQUIRE(back);
        CHECK(back->actions == s.actions);
        CHECK(back->chunks == s.chunks);
        CHECK(back->placement == s.placement);
        CHECK(back->forward_only == s.forward_only);
        CHECK(back->micro_batches == m);
      }
}

TEST_CASE("idle slots, overlapped pairs and the older name of I are read", "[schedule][text]") {
  const auto s = from_csv("0F0,,0B0,0W0\r\n,1F0,1B0,1W0\r\n", "read");
  REQUIRE(s);
  CHECK(order(*s, 0) == "F0 I0 W0");
  const auto pairs = from_csv("0F0,1F0,(0F1;1B0)OVERLAP_F_B,(1F1;0B0)OVERLAP_F_B,1B1,0B1\n", "read");
  REQUIRE(pairs);
  CHECK(order(*pairs, 0) == "Fa0 Fb0 Fa1 Bb0 Fb1 Ba0 Bb1 Ba1");
}

TEST_CASE("a text that is no schedule is refused with its place", "[schedule][text]") {
  CHECK(complaint("0F0,0B0\n1F0,1X0\n") == "line 2: '1X0' is no action such as 0F3 or 2I1");
  CHECK(complaint("0F0,0B0,hello\n") == "line 1: 'hello' is no action such as 0F3 or 2I1");
  for (const auto* bad :
       {"0F", "F0", "0F0x", "0F-1", "0F99999999999", "99999999F0", "(0F0;0B0", "()OVERLAP_F_B", " 0F0"})
    CHECK_FALSE(complaint(bad).empty());
  CHECK(complaint("").starts_with("0 lines cannot share"));
  CHECK(complaint("0F0,2F0,0B0,2B0\n1F0,1B0\n").starts_with("2 lines cannot share 3"));
  CHECK(complaint("0F0,1F0,1B0,0B0\n2F0,3F0,3B0,2B0\n").starts_with("the virtual stages lie neither"));
  CHECK(complaint("0F900000,1F0\n").starts_with("2 actions cannot take"));
  CHECK(complaint("0F0,0F1,0B0\n") == "stage 0 lacks B1");
  CHECK(complaint("0B0,0F0\n") == "stage 0 can never run B0 (its action 0): F0 of stage 0 does not come before it");
}
