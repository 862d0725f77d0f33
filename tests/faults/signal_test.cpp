// SIGINT, SIGTERM and SIGUSR1 end a run in good order and in time; a second one ends it at once.

#include <fmt/format.h>
#include <signal.h>

#include "catch.hpp"
#include "tiny_run.hpp"

using namespace troupe::whole;
using Catch::Matchers::Contains;

namespace {

constexpr double grace_s = 1;

struct signalled {
  int signal, code;
};
constexpr signalled known[] = {{SIGINT, 130}, {SIGTERM, 143}, {SIGUSR1, 143}};

std::vector<std::string> endless(const scratch_folder& scratch, const run_files& files, const std::string& workers,
                                 int grace_ms) {
  return scratch.troupe_run(files.directory(),
                            {"train.steps=1000000", "parallel.pp=3", fmt::format("recovery.grace_ms={}", grace_ms)},
                            {"--workers", workers});
}

void check_interrupted(const program& head, const run_files& files, const program_end& end, signalled s) {
  INFO(end.err);
  CHECK(end.code == s.code);
  const auto metrics = read_json_lines(files.directory() / "metrics.jsonl");  // whole, or it throws
  for (std::size_t i = 0; i < metrics.size(); ++i) CHECK(metrics[i].at("step") == i);
  CHECK_THAT(end.err,
             Contains(fmt::format("interrupted by signal {} after {} committed steps", s.signal, metrics.size())));
  CHECK_THAT(end.err, !Contains("the others waited"));  // no shard is to blame
  const auto events = read_json_lines(files.directory() / "events.jsonl");
  if (events.empty())
    CHECK(std::filesystem::is_empty(files.directory()));  // before any shard was ready: nothing is kept
  else
    CHECK(events.back().at("kind") == "interrupted");
  CHECK(head.processes().empty());
}

}  // namespace

TEST_CASE("a signal ends a run within its grace and a second, with its code, whole files and nothing left",
          "[signal]") {
  for (const auto s : known)
    for (const char* workers : {"processes", "threads"})
      for (std::size_t steps : {0, 7}) {
        const scratch_folder scratch;
        const shared_memory_watch shared;
        const run_files files(scratch / "run");
        program head(endless(scratch, files, workers, 1000));
        if (steps == 0 && workers == std::string("processes"))
          files.wait_for_worker(head, 2);  // some are still starting
        else
          files.wait_for_steps(head, steps + 1);
        head.signal(s.signal);
        const auto end = head.wait();
        INFO(fmt::format("signal {}, {}, after {} steps, ended after {:.3f} s", s.signal, workers, steps, end.seconds));
        check_interrupted(head, files, end, s);
        CHECK(end.seconds < grace_s + 1);
        CHECK(shared.left() == nothing);
      }
}

TEST_CASE("a worker that does not end when asked is killed after the grace", "[signal]") {
  const scratch_folder scratch;
  const shared_memory_watch shared;
  const run_files files(scratch / "run");
  program head(endless(scratch, files, "processes", 1000));
  const int stopped = files.wait_for_worker(head, 1);
  files.wait_for_steps(head, 3);
  ::kill(stopped, SIGSTOP);
  head.signal(SIGTERM);
  const auto end = head.wait();
  INFO(fmt::format("ended after {:.3f} s", end.seconds));
  check_interrupted(head, files, end, {SIGTERM, 143});
  CHECK(end.seconds >= grace_s);
  CHECK(end.seconds < grace_s + 1);
  CHECK(shared.left() == nothing);
}

TEST_CASE("a second signal ends a run at once, however long the grace is", "[signal]") {
  for (const auto s : known) {
    const scratch_folder scratch;
    const shared_memory_watch shared;
    const run_files files(scratch / "run");
    program head(endless(scratch, files, "processes", 60'000));
    const int stopped = files.wait_for_worker(head, 1);
    files.wait_for_steps(head, 3);
    ::kill(stopped, SIGSTOP);  // would use the whole grace
    head.signal(s.signal);
    files.wait_until(head, [&] { return files.has_event("interrupted"); });
    head.signal(s.signal);
    const auto end = head.wait();
    INFO(fmt::format("signal {}: ended after {:.3f} s, its workers {:.3f} s later", s.signal, end.seconds,
                     head.wait_until_gone()));
    CHECK(end.code == s.code);
    CHECK(end.seconds < 1);
    CHECK(head.processes().empty());
    CHECK(shared.left() == nothing);
    CHECK_NOTHROW(read_json_lines(files.directory() / "metrics.jsonl"));
  }
}

TEST_CASE("Ctrl-C in a terminal reaches the head alone: the workers end by its order", "[signal]") {
  const scratch_folder scratch;
  const run_files files(scratch / "run");
  program head(endless(scratch, files, "processes", 1000));
  files.wait_for_steps(head, 3);
  ::kill(-head.pid(), SIGINT);  // what a terminal does: the whole foreground group
  const auto end = head.wait();
  check_interrupted(head, files, end, {SIGINT, 130});
}
