// What generating and proving a large schedule costs: 64 stages, 1024 micro-batches, up to 4 chunks.

#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>

#include "actors/schedule/validate.hpp"
#include "schedule_probe.hpp"

using namespace troupe;

namespace {

double megabytes_at_most() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

TEST_CASE("a schedule of 64 stages, 1024 micro-batches and 4 chunks is made and proved in less than 1 s and 500 MB",
          "[scale]") {
  using clock = std::chrono::steady_clock;
  fmt::print("64 stages, 1024 micro-batches; generated and proved:\n");
  for (const auto name : schedule_names()) {
    const bool any_chunks = name == "interleaved" || name == "forward-only";
    const auto start = clock::now();
    const auto s = make_schedule(name, {64, 1'024, any_chunks ? 4U : 0U});
    const std::chrono::duration<double> took = clock::now() - start;
    REQUIRE(s);
    std::size_t actions = 0;
    for (const auto& stage : s->actions) actions += stage.size();
    fmt::print("  {:<12} {} chunks, {:>7} actions: {:.3f} s\n", name, s->chunks, actions, took.count());
    CHECK(took.count() < 1.0);
  }
  fmt::print("  resident memory at most {:.0f} MB\n", megabytes_at_most());
  CHECK(megabytes_at_most() < 500);
}
