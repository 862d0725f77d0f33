// What a run says when it is over, and two runs that meet.

#include <fmt/format.h>

#include "catch.hpp"
#include "tiny_run.hpp"

using namespace troupe::whole;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

TEST_CASE("a good run ends with its loss, its folder and one command that works", "[closing_words]") {
  const scratch_folder scratch;
  const auto directory = scratch / "a run";  // the blank must survive the shell
  const auto end = run(scratch.troupe_run(directory));
  INFO(end.err);
  REQUIRE(end.code == 0);
  CHECK(end.out.empty());
  const auto lines = lines_of(end.err);
  REQUIRE(lines.size() > 3);
  const double loss = read_json_lines(directory / "metrics.jsonl").back().at("loss");
  CHECK_THAT(lines[lines.size() - 3], Contains(fmt::format("loss {:.4f} after 20 steps", loss)));
  CHECK(lines[lines.size() - 2] == "run directory: " + directory.string());
  REQUIRE(lines.back().starts_with("next: "));
  const auto next = run({"sh", "-c", lines.back().substr(6)});
  INFO(next.err);
  CHECK(next.code == 0);
  CHECK(lines_of(next.out) == std::vector<std::string>{(directory / "trace.html").string()});
  CHECK_THAT(read_text(directory / "trace.html"), Contains("<svg"));
}

TEST_CASE("a run without a trace suggests what works without one", "[closing_words]") {
  const scratch_folder scratch;
  const auto end = run(scratch.troupe_run(scratch / "run", {"observe.trace_steps=0", "train.steps=2"}));
  REQUIRE(end.code == 0);
  const auto last = lines_of(end.err).back();
  REQUIRE(last.starts_with("next: "));
  std::filesystem::create_directory(scratch / "elsewhere");
  const auto next = run({"sh", "-c", "cd " + (scratch / "elsewhere").string() + " && " + last.substr(6)});
  INFO(next.err);
  CHECK(next.code == 0);
  CHECK(fs::exists(scratch / "elsewhere" / "runs"));
}

TEST_CASE("the resolved config of a run starts the same run again", "[closing_words]") {
  const scratch_folder scratch;
  REQUIRE(run(scratch.troupe_run(scratch / "first", {"train.steps=5", "parallel.pp=3", "train.seed=9"})).code == 0);
  REQUIRE(run({troupe_program(), "run", (scratch / "first" / "config.toml").string(), "--run-dir",
               (scratch / "second").string()})
              .code == 0);
  CHECK(read_trajectory(scratch / "first") == read_trajectory(scratch / "second"));
  CHECK(read_text(scratch / "first" / "config.toml") == read_text(scratch / "second" / "config.toml"));
}

TEST_CASE("a good run leaves no process and no shared memory, and its workers wrote nothing", "[closing_words]") {
  const scratch_folder scratch;
  const shared_memory_watch shared;
  program p(scratch.troupe_run(scratch / "run", {"parallel.pp=4"}));
  CHECK(p.wait().code == 0);
  CHECK(p.processes().empty());
  CHECK(shared.left() == nothing);
  for (int i = 0; i < 4; ++i) CHECK(read_text(scratch / "run" / fmt::format("worker-{}.log", i)).empty());
}

TEST_CASE("two runs at once on one machine do not disturb each other", "[two_runs]") {
  const scratch_folder scratch;
  REQUIRE(run(scratch.troupe_run(scratch / "alone")).code == 0);
  program one(scratch.troupe_run(scratch / "one")), two(scratch.troupe_run(scratch / "two", {"transport.route=tcp"}));
  CHECK(one.wait().code == 0);
  CHECK(two.wait().code == 0);
  CHECK(read_trajectory(scratch / "one") == read_trajectory(scratch / "alone"));
  CHECK(read_trajectory(scratch / "two") == read_trajectory(scratch / "alone"));
}

TEST_CASE("a second run into the folder of a running one is refused and harms nothing", "[two_runs]") {
  const scratch_folder scratch;
  const run_files files(scratch / "run");
  program first(scratch.troupe_run(scratch / "run", {"train.steps=200"}));
  files.wait_for_steps(first, 3);
  const auto second = run(scratch.troupe_run(scratch / "run"));
  CHECK(second.code == 2);
  CHECK_THAT(second.err, Contains("is not empty"));
  CHECK(first.wait().code == 0);
  CHECK(read_trajectory(scratch / "run").loss_bits.size() == 200);
}

TEST_CASE(
    "of two runs that start into the same folder at the same time at least one is refused, and the other is whole",
    "[two_runs]") {
  const scratch_folder scratch;
  for (int trial = 0; trial < 8; ++trial) {
    const auto directory = scratch / fmt::format("run-{}", trial);
    const std::vector<std::string> keys = {"parallel.pp=1", "parallel.workers=threads"};
    program one(scratch.troupe_run(directory, keys)), two(scratch.troupe_run(directory, keys));
    const auto first = one.wait(), second = two.wait();
    INFO(first.err << second.err);
    REQUIRE(first.code + second.code == 2);  // one refused, one trained
    CHECK(read_trajectory(directory).loss_bits.size() == 20);
    CHECK(fs::exists(directory / "events.jsonl"));
    CHECK(fs::exists(directory / "config.toml"));
  }
}
