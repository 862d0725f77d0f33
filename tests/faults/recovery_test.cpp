// A worker is killed at any instant, and the run goes on: its losses are those of an undisturbed run, to the bit, the
// others compute nothing twice, and nothing is left behind.

#include <fmt/format.h>
#include <signal.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <random>

#include "catch.hpp"
#include "tiny_run.hpp"

using namespace troupe::whole;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

constexpr std::size_t steps = 30;

std::uint32_t first_seed() {
  const char* given = std::getenv("FAULTS_SEED");
  return given != nullptr ? static_cast<std::uint32_t>(std::stoul(given)) : std::random_device{}();
}

std::size_t trials(std::size_t usual) {
  const char* given = std::getenv("FAULTS_TRIALS");
  return given != nullptr ? std::stoul(given) : usual;
}

void pass_time(double seconds) {
  using steady = std::chrono::steady_clock;
  for (const auto end = steady::now() + std::chrono::duration<double>(seconds); steady::now() < end;) {
  }
}

struct layout {
  std::string name;
  std::vector<std::string> keys;
  unsigned workers = 4;
};

std::vector<std::string> keys_of(const layout& l) {
  auto keys = l.keys;
  keys.insert(keys.end(), {fmt::format("train.steps={}", steps), "model.heads=4", "observe.print_every=1000000",
                           fmt::format("observe.trace_steps={}", steps), "recovery.max_restarts=100"});
  return keys;
}

/// Actions in the run's trace that one incarnation of a shard ran twice in a step.
std::size_t repeated_by_survivors(const std::filesystem::path& run_directory) {
  std::map<std::string, int> times;
  for (const auto& e : json::parse(read_text(run_directory / "trace.json")).at("traceEvents"))
    if (e.at("ph") == "X" && e.at("cat") == "compute")
      ++times[fmt::format("{} {} {} {}", e.at("pid").dump(), e.at("tid").dump(), e.at("name").dump(),
                          e.at("args").at("step").dump())];
  std::size_t repeated = 0;
  for (const auto& [what, n] : times) repeated += static_cast<std::size_t>(n - 1);
  return repeated;
}

/// One run in which `kills` workers die at instants that `seed` chooses. Gives the number of fresh starts.
std::size_t check_kills(const layout& l, const trajectory& undisturbed, std::uint32_t seed, unsigned kills) {
  std::mt19937 dice(seed);
  const auto random = [&](double most) { return std::uniform_real_distribution<double>(0, most)(dice); };
  const scratch_folder scratch;
  const shared_memory_watch shared;
  const run_files files(scratch / "run");
  program head(scratch.troupe_run(files.directory(), keys_of(l)));
  std::vector<std::string> victims;
  const auto at = static_cast<std::size_t>(1 + random(static_cast<double>(steps) - 4));
  files.wait_for_steps(head, at);
  const double step_s = files.metrics().back().at("step_s");
  for (unsigned k = 0; k < kills; ++k) {
    const auto worker = static_cast<unsigned>(random(l.workers));
    const int pid = files.wait_for_worker(head, worker % l.workers);
    pass_time(random(k == 0 ? step_s : 3 * step_s));
    ::kill(pid, SIGKILL);
    victims.push_back(fmt::format("(pid {}): killed by signal 9", pid));
  }
  const auto end = head.wait();
  INFO(fmt::format("{}, seed {}, after step {}: {}", l.name, seed, at, end.err));
  CHECK(end.code == 0);
  CHECK(read_trajectory(files.directory()) == undisturbed);
  CHECK_THAT(end.err, Contains(victims.front()));
  std::size_t down = 0, returned = 0, from_scratch = 0;
  for (const auto& e : read_json_lines(files.directory() / "events.jsonl")) {
    down += e.at("kind") == "down" && !e.at("shard").is_null();
    returned += e.at("kind") == "restarted";
    from_scratch += e.at("kind") == "down" && e.at("shard").is_null();
  }
  CHECK(down >= 1);
  CHECK(returned >= 1);
  if (kills == 1) CHECK(from_scratch == 0);
  if (from_scratch == 0) CHECK(repeated_by_survivors(files.directory()) == 0);
  CHECK(head.processes().empty());
  CHECK(shared.left() == nothing);
  return from_scratch;
}

}  // namespace

TEST_CASE("kill -9 of any worker at any instant changes no bit of the losses, and the others compute nothing twice",
          "[recovery]") {
  const auto seed = first_seed();
  fmt::print(stderr, "seed {} (FAULTS_SEED={} repeats it; FAULTS_TRIALS says how many runs of each layout)\n", seed,
             seed);
  for (const auto& l :
       {layout{"four stages", {"parallel.pp=4"}},
        layout{"two stages of two tensor shards", {"parallel.pp=2", "parallel.tp=2"}},
        layout{"two replicas of two stages", {"parallel.pp=2", "parallel.dp=2"}},
        layout{"two replicas that split the optimizer", {"parallel.pp=2", "parallel.dp=2", "parallel.zero=1"}}}) {
    const scratch_folder scratch;
    const auto undisturbed = train(scratch, keys_of(l), steps);
    for (std::uint32_t i = 0; i < trials(4); ++i) check_kills(l, undisturbed, seed + i, 1);
  }
}

TEST_CASE("two workers killed within one step change no bit of the losses", "[recovery]") {
  const auto seed = first_seed();
  fmt::print(stderr, "seed {}\n", seed);
  const layout l{"four stages", {"parallel.pp=4"}};
  const scratch_folder scratch;
  const auto undisturbed = train(scratch, keys_of(l), steps);
  std::size_t from_scratch = 0;
  const auto runs = trials(4);
  for (std::uint32_t i = 0; i < runs; ++i) from_scratch += check_kills(l, undisturbed, seed + i, 2) > 0;
  fmt::print(stderr, "in {} of {} runs a shard and its buddy died together, and all began again\n", from_scratch, runs);
}

TEST_CASE("a stage that throws in each of its incarnations comes back each time, in threads and in processes",
          "[recovery]") {
  const scratch_folder scratch;
  const auto config =
      scratch.write("faulty.toml",
                    "[model]\nkind = \"faulty\"\nhidden = 8\n[parallel]\npp = 2\nsplit = [2, 2]\noversubscribe = true\n"
                    "[train]\nglobal_batch = 8\nmicro_batch = 2\nsteps = 9\n[recovery]\nmax_restarts = 100\n");
  std::optional<trajectory> undisturbed;
  for (const std::string workers : {"threads", "processes"})
    for (const std::string how : {"none", "throw", "refuse"}) {
      const auto directory = scratch / (workers + how);
      const auto end = run({FAULTY_STAGE_PROGRAM, "run", config, "--workers", workers, "--run-dir", directory.string()},
                           {"STAGE_FAULT=" + how});
      INFO(workers << ", " << how << ": " << end.err);
      CHECK(end.code == 0);
      if (!undisturbed) undisturbed = read_trajectory(directory);
      CHECK(read_trajectory(directory) == *undisturbed);
      std::size_t returned = 0;
      for (const auto& e : read_json_lines(directory / "events.jsonl")) returned += e.at("kind") == "restarted";
      CHECK(returned == (how == "none" ? 0 : 4));  // each incarnation bears nine micro-batches
    }
}
