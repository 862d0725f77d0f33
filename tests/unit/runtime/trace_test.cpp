#include "runtime/trace.hpp"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "catch.hpp"
#include "runtime/timeline_svg.hpp"
#include "sample_report.hpp"

using namespace troupe;
using nlohmann::json;

namespace {

std::deque<step_report> sample_steps() { return {sample_report(4), sample_report(5), sample_report(6)}; }

std::int64_t ns(const json& us) { return std::llround(us.get<double>() * 1000); }

json events(const std::deque<step_report>& steps) { return json::parse(trace_json(steps)).at("traceEvents"); }

std::vector<json> of_phase(const json& all, const std::string& phase) {
  std::vector<json> found;
  for (const auto& e : all)
    if (e.at("ph") == phase) found.push_back(e);
  return found;
}

/// The slice of `row` that encloses `at`; null: none does.
json enclosing(const json& all, const json& flow) {
  for (const auto& e : of_phase(all, "X"))
    if (e["pid"] == flow["pid"] && e["tid"] == flow["tid"] && ns(e["ts"]) <= ns(flow["ts"]) &&
        ns(flow["ts"]) < ns(e["ts"]) + ns(e["dur"]))
      return e;
  return {};
}

}  // namespace

TEST_CASE("no two slices of a row overlap, and waiting fills the gaps of computing", "[trace]") {
  const auto all = events(sample_steps());
  std::map<std::pair<int, int>, std::int64_t> free_from;
  std::map<std::string, std::int64_t> sum;
  for (const auto& e : of_phase(all, "X")) {
    const std::pair row{e["pid"].get<int>(), e["tid"].get<int>()};
    INFO(e.dump());
    CHECK(ns(e["ts"]) >= free_from[row]);
    CHECK(ns(e["dur"]) > 0);
    free_from[row] = ns(e["ts"]) + ns(e["dur"]);
    sum[e["cat"]] += ns(e["dur"]);
  }
  CHECK(free_from.size() == 4);  // two shards, a row of computing and one of waiting each
  CHECK(sum["compute"] == 3 * 12 * 1'001 + 2 * 3 * 500);
  // Stage 0 begins at 0 and ends at 40000 + 9 units; stage 1 from the update (step 4's, before 0) to 40000 + 7 units.
  CHECK(sum["wait"] + sum["compute"] == (41'500 + 9 * 1'001) + (41'500 + 7 * 1'001));
}

TEST_CASE("times are microseconds since the first slice, with nanoseconds behind the point", "[trace]") {
  const auto slices = of_phase(events({sample_report(0)}), "X");
  CHECK(slices.front()["name"] == "F0");
  CHECK(slices.front()["ts"] == 0.0);
  CHECK(slices.front()["dur"] == 1.001);
  CHECK(slices.front()["args"]["step"] == 0);
  CHECK(slices.front()["args"]["micro_batch"] == 0);
}

TEST_CASE("an update is a slice of the step that it ended", "[trace]") {
  std::set<int> steps;
  for (const auto& e : of_phase(events(sample_steps()), "X"))
    if (e["name"] == "update") steps.insert(e["args"]["step"].get<int>());
  CHECK(steps == std::set<int>{3, 4, 5});
}

TEST_CASE("every row and every process has a name", "[trace]") {
  const auto all = events(sample_steps());
  std::map<int, std::string> rows;
  std::set<std::string> processes;
  for (const auto& e : of_phase(all, "M")) {
    if (e["name"] == "thread_name") rows[e["tid"].get<int>()] = e["args"]["name"];
    if (e["name"] == "process_name") processes.insert(e["args"]["name"].get<std::string>());
  }
  CHECK(processes == std::set<std::string>{"replica 0"});
  std::set<std::string> names;
  for (const auto& [tid, name] : rows) names.insert(name);
  CHECK(names == std::set<std::string>{"r0/s0/t0", "r0/s0/t0 waiting", "r0/s1/t0", "r0/s1/t0 waiting"});
  for (const auto& e : of_phase(all, "X")) CHECK(rows.contains(e["tid"].get<int>()));
}

TEST_CASE("each message is one arrow between the slices that sent and received it", "[trace]") {
  const auto all = events(sample_steps());
  std::map<int, json> leave, arrive;
  for (const auto& e : of_phase(all, "s")) CHECK(leave.emplace(e["id"].get<int>(), e).second);
  for (const auto& e : of_phase(all, "f")) CHECK(arrive.emplace(e["id"].get<int>(), e).second);
  CHECK(leave.size() == 3 * 4);  // two activations and two gradients a step
  REQUIRE(leave.size() == arrive.size());
  for (const auto& [id, from] : leave) {
    REQUIRE(arrive.contains(id));
    const auto source = enclosing(all, from), target = enclosing(all, arrive[id]);
    INFO(from.dump() << arrive[id].dump());
    REQUIRE_FALSE(source.is_null());
    REQUIRE_FALSE(target.is_null());
    CHECK(source["name"] == target["name"]);
    CHECK(source["args"]["step"] == target["args"]["step"]);
    const int hop = target["args"]["stage"].get<int>() - source["args"]["stage"].get<int>();
    CHECK(hop == (source["name"].get<std::string>()[0] == 'F' ? 1 : -1));
    CHECK(from["name"] == (hop == 1 ? "activation" : "gradient"));
    CHECK(ns(from["ts"]) <= ns(arrive[id]["ts"]));
  }
}

TEST_CASE("an arrow never leads back in time, though a receiver begins before its sender's slice ends", "[trace]") {
  auto report = sample_report(0);
  report.timelines[0].actions[0].end_ns += 400;    // F0 of stage 0
  report.timelines[0].actions[1].start_ns += 400;  // F1 after it
  const auto all = events({report});
  std::map<int, std::int64_t> leave;
  for (const auto& e : of_phase(all, "s")) leave[e["id"].get<int>()] = ns(e["ts"]);
  for (const auto& e : of_phase(all, "f")) CHECK(leave.at(e["id"].get<int>()) <= ns(e["ts"]));
  for (const auto& e : of_phase(all, "s")) CHECK_FALSE(enclosing(all, e).is_null());
}

TEST_CASE("records that overlap, as of two clocks, are cut apart", "[trace]") {
  auto report = sample_report(0);
  report.timelines[0].actions[1].start_ns -= 500;
  std::int64_t free_from = 0;
  for (const auto& e : of_phase(events({report}), "X")) {
    if (e["tid"] != 2) continue;
    CHECK(ns(e["ts"]) >= free_from);
    free_from = ns(e["ts"]) + ns(e["dur"]);
  }
}

TEST_CASE("a trace reads back to the steps it was written from", "[trace]") {
  auto steps = sample_steps();
  steps[1].loss = std::numeric_limits<double>::infinity();
  const auto back = read_trace(trace_json(steps));
  REQUIRE(back);
  REQUIRE(back->size() == 3);
  CHECK((*back)[0].step == 4);
  CHECK((*back)[0].loss == steps[0].loss);
  CHECK(std::isnan((*back)[1].loss));
  CHECK((*back)[2].bubble_ideal == steps[2].bubble_ideal);
  const auto zero = steps[0].timelines[0].update.start_ns;
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t stage = 0; stage < 2; ++stage) {
      const auto &was = steps[i].timelines[stage], &is = (*back)[i].timelines[stage];
      CHECK(is.shard == was.shard);
      CHECK(is.update.end_ns == was.update.end_ns - zero);
      REQUIRE(is.actions.size() == was.actions.size());
      for (std::size_t a = 0; a < was.actions.size(); ++a) {
        CHECK(is.actions[a].what == was.actions[a].what);
        CHECK(is.actions[a].start_ns == was.actions[a].start_ns - zero);
        CHECK(is.actions[a].end_ns == was.actions[a].end_ns - zero);
      }
    }
}

TEST_CASE("a trace of no steps is still valid, and anything else is refused in one sentence", "[trace]") {
  CHECK(read_trace(trace_json({}))->empty());
  for (const auto* text : {"", "[]", "{}", "{\"otherData\":{\"steps\":[{}]},\"traceEvents\":[]}",
                           "{\"otherData\":{\"steps\":[]},\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"compute\"}]}"}) {
    INFO(text);
    const auto read = read_trace(text);
    REQUIRE_FALSE(read);
    CHECK(read.error().where.starts_with("not a trace that Troupe wrote: "));
  }
}

TEST_CASE("the picture of a step has a box for each action and tells both bubbles", "[trace]") {
  const auto svg = timeline_svg(sample_report(12));
  const auto count = [&](const std::string& what) {
    std::size_t n = 0;
    for (auto at = svg.find(what); at != svg.npos; at = svg.find(what, at + 1)) ++n;
    return n;
  };
  CHECK(count("<title>F") == 4);
  CHECK(count("<title>B") == 4);
  CHECK(count("<title>F1 on r0/s1/t0: 0.001 ms</title>") == 1);
  CHECK(count("Bubble 33.3 % measured, 33.3 % ideal") == 1);
  CHECK(count("step 12: 2 stages") == 1);
  CHECK(count("backward of the weights") == 0);  // not split here
  CHECK(count("http") == 1);                     // the namespace alone: nothing is fetched
}

TEST_CASE("the page shows the newest step first and escapes its title", "[trace]") {
  const auto html = timeline_html(sample_steps(), "runs/<x> & y");
  CHECK(html.find("step 6:") < html.find("step 4:"));
  CHECK(html.find("<h1>runs/&lt;x> &amp; y</h1>") != std::string::npos);
}
