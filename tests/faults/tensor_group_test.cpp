// A tensor shard dies while the others of its stage wait for it inside a collective: they do not hang, and the run ends
// within two seconds with one sentence that names who it was.

#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <random>

#include "catch.hpp"
#include "tiny_run.hpp"

using namespace troupe::whole;
using Catch::Matchers::Contains;

TEST_CASE("kill -9 of a tensor shard, at a random instant: the run ends in time and names it", "[tensor_group]") {
  const char* given = std::getenv("FAULTS_SEED");
  const auto seed = given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  fmt::print(stderr, "seed {} (FAULTS_SEED={} repeats it)\n", seed, seed);
  std::mt19937 dice(seed);
  for (unsigned trial = 0; trial < 8; ++trial) {
    const unsigned victim = trial % 4;
    const scratch_folder scratch;
    const shared_memory_watch shared;
    const run_files files(scratch / "run");
    program head(scratch.troupe_run(files.directory(), {"train.steps=1000000", "model.heads=4", "parallel.pp=1",
                                                        "parallel.tp=4", "recovery.max_restarts=0"}));
    const int pid = files.wait_for_worker(head, victim);
    files.wait_for_steps(head, std::uniform_int_distribution<std::size_t>(1, 30)(dice));
    const std::chrono::duration<double> step(files.metrics().back().at("step_s").get<double>());
    const auto instant = step * std::uniform_real_distribution<double>(0, 1)(dice);
    for (const auto end = std::chrono::steady_clock::now() + instant; std::chrono::steady_clock::now() < end;) {
    }
    ::kill(pid, SIGKILL);
    const auto end = head.wait();
    INFO(fmt::format("trial {}, tensor shard {}: {}", trial, victim, end.err));
    CHECK(end.code == 3);
    CHECK(end.seconds < 2);
    CHECK_THAT(end.err,
               Contains(fmt::format("shard r0/s0/t{} on localhost (pid {}): killed by signal 9", victim, pid)));
    const auto first = end.err.find("the others waited");
    CHECK(first != std::string::npos);
    CHECK(end.err.find("the others waited", first + 1) == std::string::npos);
    CHECK(head.processes().empty());
    CHECK(shared.left() == nothing);
  }
}
