// The trace of a run tells what happened: whole, in order, and in agreement with the metrics.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "catch.hpp"
#include "tiny_run.hpp"

using namespace troupe::whole;
using nlohmann::json;

namespace {

constexpr int stages = 3, micro_batches = 4, steps = 20;

struct slice {
  std::string name;
  double from = 0, to = 0;  // µs
  json args;
};
using rows = std::map<int, std::vector<slice>>;  // by tid, in time's order

/// A run of three worker processes, made once for all tests of this file.
struct traced_run {
  traced_run() {
    const auto directory = scratch / "run";
    const auto end = run(scratch.troupe_run(directory, {"parallel.pp=3", "observe.trace_steps=20"}));
    if (end.code != 0) throw std::runtime_error(end.err);
    trace = json::parse(read_text(directory / "trace.json"));
    metrics = read_json_lines(directory / "metrics.jsonl");
  }
  static const traced_run& get() {
    static const traced_run made;
    return made;
  }
  std::vector<json> events(std::string_view ph) const {
    std::vector<json> found;
    for (const auto& e : trace.at("traceEvents"))
      if (e.at("ph") == ph) found.push_back(e);
    return found;
  }
  std::map<int, std::string> row_names() const {
    std::map<int, std::string> names;
    for (const auto& e : events("M"))
      if (e.at("name") == "thread_name") names[e.at("tid")] = e.at("args").at("name");
    return names;
  }
  rows slices(std::string_view category) const {
    rows found;
    for (const auto& e : events("X"))
      if (e.at("cat") == category) {
        const double from = e.at("ts"), length = e.at("dur");
        found[e.at("tid")].push_back({e.at("name"), from, from + length, e.at("args")});
      }
    for (auto& [tid, row] : found)
      std::sort(row.begin(), row.end(), [](const auto& a, const auto& b) { return a.from < b.from; });
    return found;
  }

  scratch_folder scratch;
  json trace;
  std::vector<json> metrics;
};

bool is_pass(const slice& s) { return s.name[0] == 'F' || s.name[0] == 'B'; }

// 1 − busy / (stages · makespan) of one step's forwards and backwards.
double bubble_of(const rows& compute, int step) {
  double busy = 0, first = 1e300, last = 0;
  for (const auto& [tid, row] : compute)
    for (const auto& s : row)
      if (is_pass(s) && s.args.at("step") == step) {
        busy += s.to - s.from;
        first = std::min(first, s.from);
        last = std::max(last, s.to);
      }
  return 1 - busy / (stages * (last - first));
}

}  // namespace

TEST_CASE("each shard has one row of computing and one of waiting", "[trace]") {
  const auto& run = traced_run::get();
  std::set<std::string> names;
  for (const auto& [tid, name] : run.row_names()) names.insert(name);
  CHECK(names == std::set<std::string>{"r0/s0/t0", "r0/s0/t0 waiting", "r0/s1/t0", "r0/s1/t0 waiting", "r0/s2/t0",
                                       "r0/s2/t0 waiting"});
  const auto by_row = run.row_names();
  const auto compute = run.slices("compute"), wait = run.slices("wait");
  REQUIRE(compute.size() == stages);
  for (const auto& [tid, row] : compute) {
    const int stage = row.front().args.at("stage");
    CHECK(by_row.at(tid) == fmt::format("r0/s{}/t0", stage));
    for (const auto& s : row) CHECK(s.args.at("stage") == stage);
  }
  for (const auto& [tid, row] : wait) CHECK(by_row.at(tid).ends_with("waiting"));
}

TEST_CASE("each forward and backward of each micro-batch is there exactly once a step and shard", "[trace]") {
  std::map<std::tuple<int, int, char, int>, int> seen;
  for (const auto& [tid, row] : traced_run::get().slices("compute"))
    for (const auto& s : row)
      if (is_pass(s)) {
        CHECK(s.name == fmt::format("{}{}", s.name[0], s.args.at("micro_batch").get<int>()));
        ++seen[{s.args.at("step"), s.args.at("stage"), s.name[0], s.args.at("micro_batch")}];
      }
  CHECK(seen.size() == steps * stages * 2 * micro_batches);
  for (const auto& [what, times] : seen) CHECK(times == 1);
}

TEST_CASE("the slices of a row do not overlap, computing and waiting taken together neither", "[trace]") {
  const auto& run = traced_run::get();
  auto both = run.slices("compute");
  for (auto& [tid, row] : run.slices("wait")) {
    auto& together = both.at(tid - 1);
    together.insert(together.end(), row.begin(), row.end());
  }
  int overlaps = 0;
  for (auto& [tid, row] : both) {
    std::sort(row.begin(), row.end(),
              [](const auto& a, const auto& b) { return std::tie(a.from, a.to) < std::tie(b.from, b.to); });
    for (std::size_t i = 1; i < row.size(); ++i) overlaps += row[i].from < row[i - 1].to - 1e-6;
  }
  CHECK(overlaps == 0);
}

TEST_CASE("every message is one arrow, from inside the slice that sent it to the start of the one that used it",
          "[trace]") {
  const auto& run = traced_run::get();
  std::map<int, json> begins, ends;
  for (const auto& e : run.events("s")) CHECK(begins.emplace(e.at("id"), e).second);
  for (const auto& e : run.events("f")) CHECK(ends.emplace(e.at("id"), e).second);
  CHECK(begins.size() == steps * (stages - 1) * 2 * micro_batches);
  REQUIRE(begins.size() == ends.size());
  const auto compute = run.slices("compute");
  const auto slice_at = [&](const json& e) -> const slice* {
    for (const auto& s : compute.at(e.at("tid")))
      if (s.from <= e.at("ts").get<double>() + 1e-6 && e.at("ts").get<double>() <= s.to) return &s;
    return nullptr;
  };
  for (const auto& [id, begin] : begins) {
    REQUIRE(ends.count(id) == 1);
    const auto *source = slice_at(begin), *target = slice_at(ends.at(id));
    REQUIRE(source != nullptr);
    REQUIRE(target != nullptr);
    const bool forward = begin.at("name") == "activation";
    CHECK(source->name == target->name);
    CHECK(source->name[0] == (forward ? 'F' : 'B'));
    CHECK(source->args.at("step") == target->args.at("step"));
    CHECK(source->args.at("stage").get<int>() + (forward ? 1 : -1) == target->args.at("stage").get<int>());
    CHECK(target->from >= source->from);  // no effect before its cause began
  }
}

TEST_CASE("the bubble in metrics.jsonl is the one that the trace shows, and the ideal one is (p-1)/(m+p-1)",
          "[trace]") {
  const auto& run = traced_run::get();
  REQUIRE(run.metrics.size() == steps);
  const auto compute = run.slices("compute");
  for (int step = 0; step < steps; ++step) {
    const double bubble = run.metrics[static_cast<std::size_t>(step)].at("bubble");
    CHECK(bubble == Approx(bubble_of(compute, step)).epsilon(1e-3));
    CHECK(bubble >= 0);
    CHECK(bubble < 1);
    CHECK(run.metrics[static_cast<std::size_t>(step)].at("bubble_ideal").get<double>() ==
          Approx((stages - 1.0) / (micro_batches + stages - 1)).epsilon(1e-12));
  }
}
