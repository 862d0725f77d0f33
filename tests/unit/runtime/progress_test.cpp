#include "runtime/progress.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "catch.hpp"
#include "runtime/run_log.hpp"
#include "runtime/trace.hpp"
#include "sample_report.hpp"

using namespace troupe;
namespace fs = std::filesystem;

namespace {

/// A terminal of the test's own, with a clock that it moves by hand.
struct screen {
  std::string text;
  std::chrono::steady_clock::time_point now;
  progress make(progress_options options) {
    return {options, [this](std::string_view s) { text += s; }, [this] { return now; }};
  }
};

progress_options bar_of(std::uint64_t steps) { return {true, false, 80, steps, 10}; }
progress_options plain_of(std::uint64_t steps) { return {false, false, 80, steps, 10}; }

run_event happened(event_kind kind, std::string text) { return {kind, {}, {0, 1, 0}, true, 1, std::move(text)}; }

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

const std::string culprit =
    "shard r0/s1/t0 on localhost (pid 4711): killed by signal 9 at step 41, micro-batch 3, backward; the others waited";

}  // namespace

TEST_CASE("without a terminal every tenth step and the last one are lines of key=value", "[progress]") {
  screen s;
  auto p = s.make(plain_of(25));
  for (std::uint64_t step = 0; step < 25; ++step) p.step_committed(sample_report(step));
  CHECK(count(s.text, "\n") == 4);
  for (const auto* begin : {"step=0 ", "\nstep=10 ", "\nstep=20 ", "\nstep=24 "}) CHECK(count(s.text, begin) == 1);
  CHECK(
      s.text.starts_with("step=0 loss=3.25 grad_norm=0.3333 lr=0.001 tokens_per_s=12346 step_s=0.5 bubble=0.333 "
                         "bubble_ideal=0.333 restarts=0\n"));
  CHECK(count(s.text, "\x1b") == 0);
}

TEST_CASE("the bar is drawn at most ten times a second, and always for the last step", "[progress]") {
  screen s;
  auto p = s.make(bar_of(100));
  for (std::uint64_t step = 0; step < 100; ++step) {
    p.step_committed(sample_report(step));
    s.now += std::chrono::milliseconds(10);
  }
  // At 0, 100, …, 900 ms, and the last at 990 ms.
  CHECK(count(s.text, "\r") == 11);
  CHECK(count(s.text, "100/100  loss") == 1);
  CHECK(count(s.text, "\n") == 0);
}

TEST_CASE("the bar tells step, loss, speed, both bubbles, restarts and the time left, and fits its columns",
          "[progress]") {
  auto report = sample_report(49);
  report.restarts = 2;
  CHECK(bar_line(report, 100, 2.0, 200) ==
        "[===============               ] 50/100  loss -1.6500  ETA 1:40  restarts 2  12.3k tok/s  bubble 33 % "
        "(ideal 33 %)");
  CHECK(bar_line(report, 100, 2.0, 50) == "50/100  loss -1.6500  ETA 1:40  restarts 2");
  for (const std::size_t columns : {1U, 10U, 80U, 100U, 120U}) {
    INFO(columns);
    CHECK(bar_line(report, 100, 2.0, columns).size() <= std::max<std::size_t>(1, columns - 1));
  }
  CHECK(bar_line(sample_report(0), 10'000, 1.0, 50).ends_with("ETA 2:46:39  restarts 0"));
}

TEST_CASE("a death's sentence stands alone on its line, above the bar", "[progress]") {
  screen s;
  {
    auto p = s.make(bar_of(100));
    p.step_committed(sample_report(0));
    s.text.clear();
    p.event(happened(event_kind::down, culprit));
    CHECK(s.text.starts_with("\r\x1b[2K" + culprit + "\n"));
    CHECK(count(s.text, "1/100") == 1);  // and the bar again below it
    p.event(happened(event_kind::committed, "step 0 committed"));
    CHECK(count(s.text, "committed") == 0);
  }
  CHECK(s.text.ends_with("\n"));
}

TEST_CASE("colour is used on a terminal that wants it, for what went wrong", "[progress]") {
  screen s;
  auto options = plain_of(1);
  options.colour = true;
  auto p = s.make(options);
  p.event(happened(event_kind::down, culprit));
  p.event(happened(event_kind::restarted, "shard r0/s1/t0 runs again"));
  CHECK(s.text == "\x1b[31m" + culprit + "\x1b[0m\nshard r0/s1/t0 runs again\n");
}

TEST_CASE("a pipe gets neither bar nor colour", "[progress]") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const auto options = terminal_options(ends[1]);
  CHECK_FALSE(options.bar);
  CHECK_FALSE(options.colour);
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("a run's log is files and terminal; the trace keeps the last steps", "[run_log]") {
  const auto path = fs::temp_directory_path() / ("troupe_log_" + std::to_string(getpid()));
  screen s;
  auto terminal = s.make(plain_of(5));
  {
    auto directory = run_directory::create(path, {});
    REQUIRE(directory);
    run_log log(*directory, terminal, 2);
    log.event(happened(event_kind::started, "shard r0/s1/t0 started"));
    for (std::uint64_t step = 0; step < 5; ++step) log.step_committed(sample_report(step));
    CHECK_FALSE(fs::exists(path / "trace.json"));
    log.event(happened(event_kind::finished, "5 steps done"));
  }
  const auto read = [&](const char* name) {
    std::ostringstream text;
    text << std::ifstream(path / name).rdbuf();
    return text.str();
  };
  CHECK(count(read("metrics.jsonl"), "\n") == 5);
  CHECK(count(read("events.jsonl"), "\n") == 2);
  const auto trace = read_trace(read("trace.json"));
  REQUIRE(trace);
  REQUIRE(trace->size() == 2);
  CHECK(trace->front().step == 3);
  CHECK(count(s.text, "step=") == 2);
  CHECK(count(s.text, "5 steps done\n") == 1);
  fs::remove_all(path);
}

TEST_CASE("a run that gave up before anything started leaves no directory", "[run_log]") {
  const auto path = fs::temp_directory_path() / ("troupe_nolog_" + std::to_string(getpid()));
  screen s;
  auto terminal = s.make(plain_of(5));
  {
    auto directory = run_directory::create(path, {});
    REQUIRE(directory);
    run_log log(*directory, terminal, 2);
    log.event(happened(event_kind::gave_up, "no worker came up within 30 s"));
  }
  CHECK_FALSE(fs::exists(path));
  CHECK(s.text == "no worker came up within 30 s\n");
}
