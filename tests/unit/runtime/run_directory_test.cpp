#include "runtime/run_directory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "runtime/run_records.hpp"
#include "sample_report.hpp"

using namespace troupe;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

/// A folder of the test's own, which is the working directory while it lives.
struct playground {
  fs::path before = fs::current_path(), path = fs::temp_directory_path() / ("troupe_runs_" + std::to_string(getpid()));
  playground() {
    fs::create_directory(path);
    fs::current_path(path);
  }
  ~playground() {
    fs::current_path(before);
    fs::remove_all(path);
  }
};

/// No file of this process may grow past `bytes` while this lives: what a full disk looks like.
struct full_disk {
  rlimit before{};
  explicit full_disk(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit tight{bytes, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
  }
  ~full_disk() { setrlimit(RLIMIT_FSIZE, &before); }
};

std::vector<std::string> lines(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> all;
  for (std::string line; std::getline(file, line);) all.push_back(line);
  return all;
}

const auto noon = std::chrono::system_clock::time_point(std::chrono::milliseconds(1'782'909'296'789));

}  // namespace

TEST_CASE("a run directory that no run started leaves nothing behind", "[run_directory]") {
  const playground here;
  {
    auto made = run_directory::create("a/b/", noon);
    REQUIRE(made);
    REQUIRE(made->write_config("[train]\n").ok());
    CHECK(fs::exists("a/b/config.toml"));
    CHECK(fs::exists("a/b/metrics.jsonl"));
  }
  CHECK_FALSE(fs::exists("a"));
}

TEST_CASE("a kept run directory stays, and a folder that was there before stays in any case", "[run_directory]") {
  const playground here;
  fs::create_directory("mine");
  {
    REQUIRE(run_directory::create("mine", noon));
    auto made = run_directory::create("other", noon);
    REQUIRE(made);
    std::ofstream("other/worker-0.log") << "x";
    std::ofstream("other/notes.txt") << "the user's own";
  }
  CHECK(fs::is_empty("mine"));
  CHECK(fs::exists("other/notes.txt"));
  CHECK_FALSE(fs::exists("other/worker-0.log"));
  {
    auto made = run_directory::create("mine", noon);
    REQUIRE(made);
    made->keep();
  }
  CHECK(fs::exists("mine/events.jsonl"));
}

TEST_CASE("the default run directory is named after the time in UTC", "[run_directory]") {
  const playground here;
  auto made = run_directory::create("", noon);
  REQUIRE(made);
  CHECK(made->path().parent_path() == "runs");
  CHECK(made->path().filename().string().starts_with("20260701-123456-"));
  CHECK(made->path().filename().string().size() == 20);
}

TEST_CASE("a run directory that is in use or cannot be made is refused with the reason", "[run_directory]") {
  const playground here;
  fs::create_directories("used/checkpoints");
  std::ofstream("file") << "x";
  const auto used = run_directory::create("used", noon);
  REQUIRE_FALSE(used);
  CHECK(used.error().where == "used: is not empty; choose a new folder as the run directory");
  CHECK(fs::exists("used/checkpoints"));
  CHECK(run_directory::create("file", noon).error().where ==
        "file: is a file; choose a new folder as the run directory");
  const auto under_file = run_directory::create("file/run", noon);
  REQUIRE_FALSE(under_file);
  CHECK(under_file.error().code == errc::system_failure);
  CHECK(under_file.error().native == ENOTDIR);
  CHECK_THAT(under_file.error().where, Contains("Not a directory"));
  CHECK(run_directory::create("/proc/troupe/run", noon).error().native == ENOENT);
}

TEST_CASE("a metrics line reads back to the same bits", "[run_directory]") {
  auto report = sample_report(7);
  report.loss = 0.1 + 0.2;
  report.restarts = 2;
  const auto line = nlohmann::ordered_json::parse(metrics_line(report));
  CHECK(line["step"] == 7);
  CHECK(line["loss"].get<double>() == report.loss);
  CHECK(line["grad_norm"].get<double>() == report.grad_norm);
  CHECK(line["restarts"] == 2);
  std::string keys;
  for (const auto& [key, value] : line.items()) keys += key + " ";
  CHECK(keys == "step loss grad_norm lr tokens_per_s step_s bubble bubble_ideal restarts ");
}

TEST_CASE("a loss that is not a number is null, with a note", "[run_directory]") {
  auto report = sample_report(0);
  report.loss = std::numeric_limits<double>::quiet_NaN();
  report.grad_norm = std::numeric_limits<double>::infinity();
  const auto line = nlohmann::json::parse(metrics_line(report));
  CHECK(line["loss"].is_null());
  CHECK(line["grad_norm"].is_null());
  CHECK(line["note"] == "loss is nan, grad_norm is inf");
}

TEST_CASE("an event line carries time, kind, shard, incarnation and any text", "[run_directory]") {
  const run_event event{event_kind::down, noon, {0, 2, 1}, true, 3, "said \"no\"\n\xff"};
  const auto line = nlohmann::json::parse(event_line(event));
  CHECK(line["time"] == "2026-07-01T12:34:56.789Z");
  CHECK(line["kind"] == "down");
  CHECK(line["shard"] == "r0/s2/t1");
  CHECK(line["incarnation"] == 3);
  CHECK(line["text"] == "said \"no\"\n\xef\xbf\xbd");
  CHECK(event_line(event).find('\n') == std::string::npos);
  auto whole_run = event;
  whole_run.about_shard = false;
  CHECK(nlohmann::json::parse(event_line(whole_run))["shard"].is_null());
}

TEST_CASE("a full disk costs lines but never leaves half a line", "[run_directory]") {
  const playground here;
  auto made = run_directory::create("run", noon);
  REQUIRE(made);
  REQUIRE(made->append_metrics(sample_report(0)).ok());
  REQUIRE(made->write_trace("whole").ok());
  {
    const full_disk disk(fs::file_size("run/metrics.jsonl") + 10);
    const auto failed = made->append_metrics(sample_report(1));
    REQUIRE_FALSE(failed);
    CHECK(failed.error().native == EFBIG);
    CHECK(failed.error().where == "run/metrics.jsonl: cannot write: File too large");
    CHECK_FALSE(made->write_trace(std::string(100'000, 'x')).ok());
  }
  REQUIRE(made->append_metrics(sample_report(2)).ok());
  const auto written = lines("run/metrics.jsonl");
  REQUIRE(written.size() == 2);
  CHECK(nlohmann::json::parse(written[0])["step"] == 0);
  CHECK(nlohmann::json::parse(written[1])["step"] == 2);
  CHECK(lines("run/trace.json") == std::vector<std::string>{"whole"});
  CHECK_FALSE(fs::exists("run/trace.json.new"));
}
