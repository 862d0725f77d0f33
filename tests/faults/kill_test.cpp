// A worker is killed, stopped or ends by itself, at any instant, and no restart is allowed: within two seconds the run
// has ended with exit code 3, one sentence names who it was, and nothing is left.

#include <fmt/format.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <regex>

#include "catch.hpp"
#include "tiny_run.hpp"

using namespace troupe::whole;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;
using steady = std::chrono::steady_clock;

namespace {

constexpr double bound_s = 2;
constexpr unsigned stages = 3;

std::mt19937& dice() {
  static std::mt19937 made = [] {
    const char* given = std::getenv("FAULTS_SEED");
    const auto seed = given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
    fmt::print(stderr, "seed {} (FAULTS_SEED={} repeats it)\n", seed, seed);
    return std::mt19937(seed);
  }();
  return made;
}

double random_up_to(double most) { return std::uniform_real_distribution<double>(0, most)(dice()); }

// Waits by computing: a sleep would round such short times up.
void pass_time(double seconds) {
  for (const auto end = steady::now() + std::chrono::duration<double>(seconds); steady::now() < end;) {
  }
}

/// A run on three worker processes that goes on until something ends it.
struct endless_run {
  explicit endless_run(std::vector<std::string> keys = {}) : files(scratch / "run"), head(words(std::move(keys))) {}

  std::vector<std::string> words(std::vector<std::string> keys) const {
    keys.insert(keys.end(), {"train.steps=1000000", "parallel.pp=3", "recovery.max_restarts=0"});
    return scratch.troupe_run(files.directory(), keys);
  }
  std::size_t committed() const { return read_json_lines(files.directory() / "metrics.jsonl").size(); }

  scratch_folder scratch;
  shared_memory_watch shared;
  run_files files;
  program head;
};

struct culprit {
  unsigned stage = 0;
  int pid = 0;
  std::string cause, place;
};

/// The sentences on stderr that blame somebody.
std::vector<culprit> culprits(const std::string& err) {
  static const std::regex sentence(
      R"(shard r0/s(\d+)/t0 on \S+ \(pid (\d+)\): (.*?),? ((?:at|after|while) .*); the others waited)");
  std::vector<culprit> found;
  for (const auto& line : lines_of(err)) {
    std::smatch parts;
    if (std::regex_match(line, parts, sentence))
      found.push_back({static_cast<unsigned>(std::stoul(parts[1])), std::stoi(parts[2]), parts[3], parts[4]});
    else
      CHECK_THAT(line, !Contains("the others waited"));
  }
  return found;
}

/// What must hold however a run gave up: the code, one culprit, whole files, nothing left.
void check_gave_up(endless_run& run, const program_end& end, unsigned stage, int pid, const std::string& cause) {
  INFO(end.err);
  CHECK(end.code == 3);
  const auto blamed = culprits(end.err);
  REQUIRE(blamed.size() == 1);
  CHECK(blamed[0].stage == stage);
  CHECK(blamed[0].pid == pid);
  CHECK_THAT(blamed[0].cause, Contains(cause));
  int down = 0, gave_up = 0;
  for (const auto& e : read_json_lines(run.files.directory() / "events.jsonl")) {
    if (e.at("kind") == "down") {
      ++down;
      CHECK(e.at("shard") == fmt::format("r0/s{}/t0", stage));
      CHECK_THAT(end.err, Contains(e.at("text").get<std::string>()));
    }
    gave_up += e.at("kind") == "gave_up";
  }
  CHECK(down == 1);
  CHECK(gave_up == 1);
  CHECK_THAT(end.err, Contains(fmt::format("the run ends after {} committed steps", run.committed())));
  CHECK(run.head.processes().empty());
  CHECK(run.shared.left() == nothing);
}

void check_in_time(double seconds, const std::string& what) {
  fmt::print(stderr, "{}: {:.3f} s\n", what, seconds);
  INFO(fmt::format("{} took {:.3f} s", what, seconds));
  CHECK(seconds < bound_s);
}

}  // namespace

TEST_CASE("kill -9 of each worker in turn, at a random instant, 20 times: the run ends in time and names the right one",
          "[kill]") {
  double slowest = 0;
  for (unsigned trial = 0; trial < 20; ++trial) {
    const unsigned victim = trial % stages;
    endless_run run;
    const int pid = run.files.wait_for_worker(run.head, victim);
    run.files.wait_for_steps(run.head, std::uniform_int_distribution<std::size_t>(1, 30)(dice()));
    const double step_s = run.files.metrics().back().at("step_s");
    pass_time(random_up_to(step_s));
    const auto seen = run.files.metrics().size();
    ::kill(pid, SIGKILL);
    const auto end = run.head.wait();
    slowest = std::max(slowest, end.seconds);
    INFO(fmt::format("trial {}, worker {}", trial, victim));
    check_gave_up(run, end, victim, pid, "killed by signal 9");
    CHECK(run.committed() >= seen);
    std::smatch at;
    const auto blamed = culprits(end.err);
    REQUIRE_FALSE(blamed.empty());
    static const std::regex step(R"((?:at|after) step (\d+).*)");
    REQUIRE(std::regex_match(blamed[0].place, at, step));
    CHECK(std::stoul(at[1]) + 1 >= run.committed());
    CHECK(std::stoul(at[1]) <= run.committed() + 1);
  }
  check_in_time(slowest, "the slowest of 20 ends after kill -9");
}

TEST_CASE("kill -9 of a worker while the run starts: it is named, whatever the others were doing", "[kill]") {
  double slowest = 0;
  for (unsigned trial = 0; trial < 9; ++trial) {
    const unsigned victim = trial % stages;
    endless_run run;
    const int pid = run.files.wait_for_worker(run.head, victim);
    pass_time(trial < stages ? 0 : random_up_to(0.25));
    ::kill(pid, SIGKILL);
    const auto end = run.head.wait();
    slowest = std::max(slowest, end.seconds);
    INFO(fmt::format("trial {}, worker {}", trial, victim));
    check_gave_up(run, end, victim, pid, "killed by signal 9");
    if (trial < stages) CHECK(culprits(end.err).at(0).place == "while starting");
  }
  check_in_time(slowest, "the slowest of 9 ends after kill -9 during the start");
}

TEST_CASE("shared memory that nobody has open any more is removed by the next run, and no other", "[kill]") {
  const scratch_folder scratch;
  const auto make = [](const char* name) {
    std::ofstream(std::string("/dev/shm/") + name) << "left by a worker";
    return fs::path("/dev/shm") / name;
  };
  const auto forgotten = make("ucx_shm_posix_troupe_test_a"), used = make("ucx_shm_posix_troupe_test_b"),
             foreign = make("troupe_test_c");
  {
    const std::ifstream in_use(used);
    CHECK(run(scratch.troupe_run(scratch / "run", {"train.steps=1"})).code == 0);
    CHECK_FALSE(fs::exists(forgotten));
    CHECK(fs::exists(used));
    CHECK(fs::exists(foreign));
  }
  for (const auto& file : {forgotten, used, foreign}) fs::remove(file);
}

TEST_CASE("two workers killed at once are one death: one of them is named", "[kill]") {
  endless_run run;
  const int first = run.files.wait_for_worker(run.head, 0), second = run.files.wait_for_worker(run.head, 2);
  run.files.wait_for_steps(run.head, 5);
  ::kill(first, SIGKILL);
  ::kill(second, SIGKILL);
  const auto end = run.head.wait();
  const auto blamed = culprits(end.err);
  REQUIRE(blamed.size() == 1);
  check_gave_up(run, end, blamed[0].stage, blamed[0].stage == 0 ? first : second, "killed by signal 9");
  check_in_time(end.seconds, "the end after two deaths");
}

TEST_CASE("kill -9 of the head ends its workers, at any instant", "[kill]") {
  double slowest = 0;
  for (std::size_t steps : {0, 1, 10}) {
    endless_run run;
    run.files.wait_for_worker(run.head, 1);
    run.files.wait_for_steps(run.head, steps);
    run.head.signal(SIGKILL);
    CHECK(run.head.wait().signal == SIGKILL);
    slowest = std::max(slowest, run.head.wait_until_gone());
    // Nobody was left to tidy up after a worker that died while it made its shared memory: the next run does.
    if (run.shared.left() != nothing)
      CHECK(troupe::whole::run(run.scratch.troupe_run(run.scratch / "next", {"train.steps=1"})).code == 0);
    CHECK(run.shared.left() == nothing);
    CHECK_NOTHROW(run.files.metrics());
  }
  check_in_time(slowest, "the slowest end of workers after kill -9 of the head");
}

TEST_CASE("a stopped worker is given up after ten heartbeats and named", "[stop]") {
  for (unsigned victim = 0; victim < stages; ++victim) {
    endless_run run({"recovery.heartbeat_ms=50"});
    const int pid = run.files.wait_for_worker(run.head, victim);
    run.files.wait_for_steps(run.head, 5);
    ::kill(pid, SIGSTOP);
    const auto end = run.head.wait();
    INFO(fmt::format("worker {}", victim));
    check_gave_up(run, end, victim, pid, "gave no sign of life for 500 ms");
    check_in_time(end.seconds, fmt::format("the end after worker {} was stopped", victim));
    CHECK(end.seconds > 0.4);
  }
}

TEST_CASE("a worker that is stopped for less than ten heartbeats costs nothing", "[stop]") {
  endless_run run;  // 500 ms: ten are five seconds
  const int pid = run.files.wait_for_worker(run.head, 1);
  run.files.wait_for_steps(run.head, 5);
  ::kill(pid, SIGSTOP);
  pass_time(0.3);
  ::kill(pid, SIGCONT);
  run.files.wait_for_steps(run.head, run.files.metrics().size() + 20);
  run.head.signal(SIGTERM);
  CHECK(run.head.wait().code == 143);
}

TEST_CASE("a stage that ends its process, refuses or throws is named with its own words", "[stage]") {
  struct fault {
    std::string how, cause;
  };
  const auto table = {fault{"exit", "ended with exit code 7"}, fault{"abort", "killed by signal 6"},
                      fault{"refuse", "the stage refuses on purpose"}, fault{"throw", "the stage threw on purpose"}};
  for (const auto& f : table) {
    INFO(f.how);
    const scratch_folder scratch;
    const shared_memory_watch shared;
    const auto config = scratch.write(
        "faulty.toml",
        "[model]\nkind = \"faulty\"\nhidden = 8\n[parallel]\npp = 2\nsplit = [2, 2]\noversubscribe = true\n"
        "[train]\nglobal_batch = 8\nmicro_batch = 2\n[recovery]\nmax_restarts = 0\n");
    program p({FAULTY_STAGE_PROGRAM, "run", config, "--run-dir", (scratch / "run").string()}, {"STAGE_FAULT=" + f.how});
    const auto end = p.wait();
    INFO(end.err);
    CHECK(end.code == 3);
    const auto blamed = culprits(end.err);
    REQUIRE(blamed.size() == 1);
    CHECK(blamed[0].stage == 1);
    CHECK_THAT(blamed[0].cause, Contains(f.cause));
    CHECK_THAT(blamed[0].place, Contains("step 2, micro-batch 1, forward"));
    CHECK(read_json_lines(scratch / "run" / "metrics.jsonl").size() == 2);
    CHECK(p.processes().empty());
    CHECK(shared.left() == nothing);
  }
}
