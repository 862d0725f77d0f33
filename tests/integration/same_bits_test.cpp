// The same seed and data give the same bits, however the run is cut and wherever its shards live.

#include <fmt/format.h>

#include "catch.hpp"
#include "tiny_run.hpp"

using namespace troupe::whole;

namespace {

constexpr std::size_t steps = 20;

trajectory train(const scratch_folder& scratch, const std::vector<std::string>& keys) {
  return troupe::whole::train(scratch, keys, steps);
}

trajectory reference(const scratch_folder& scratch, bool tied) {
  return train(scratch, {fmt::format("model.tied={}", tied), "parallel.pp=1", "parallel.schedule=gpipe",
                         "parallel.workers=threads"});
}

}  // namespace

TEST_CASE("losses and gradient norms have the same bits for every number of stages, schedule and kind of worker",
          "[same_bits]") {
  const bool tied = GENERATE(true, false);
  const scratch_folder scratch;
  const auto expected = reference(scratch, tied);
  CHECK(std::stod(expected.loss_text.back()) < std::stod(expected.loss_text.front()) - 0.3);  // it does train
  for (int pp : {1, 2, 3, 4})
    for (const char* schedule : {"gpipe", "1f1b"})
      for (const char* workers : {"threads", "processes"}) {
        const auto how = fmt::format("tied {}, {} stages, {}, {}", tied, pp, schedule, workers);
        INFO(how);
        const auto figures = train(
            scratch, {fmt::format("model.tied={}", tied), fmt::format("parallel.pp={}", pp),
                      fmt::format("parallel.schedule={}", schedule), fmt::format("parallel.workers={}", workers)});
        CHECK(figures.loss_bits == expected.loss_bits);
        CHECK(figures.norm_bits == expected.norm_bits);
        CHECK(figures.loss_text == expected.loss_text);
        CHECK(figures.norm_text == expected.norm_text);
      }
}

TEST_CASE("a longer warm-up or a split backward changes no bit", "[same_bits]") {
  const scratch_folder scratch;
  const auto expected = reference(scratch, true);
  for (const char* schedule : {"1f1b", "eager-1f1b", "zb-h1", "zb-h2"})
    for (int pp : {2, 4}) {
      INFO(fmt::format("{}, {} stages", schedule, pp));
      CHECK(train(scratch, {fmt::format("parallel.pp={}", pp), fmt::format("parallel.schedule={}", schedule),
                            "parallel.workers=threads"}) == expected);
    }
}

TEST_CASE("routes, checksums, uneven splits and repetition change no bit", "[same_bits]") {
  const scratch_folder scratch;
  const auto expected = reference(scratch, true);
  const std::vector<std::vector<std::string>> variants = {
      {"parallel.pp=3", "transport.route=tcp"},
      {"parallel.pp=3", "transport.route=shm"},
      {"parallel.pp=3", "transport.checksum=false"},
      {"parallel.pp=3", "transport.spin_us=0"},
      {"parallel.pp=3"},
      {"parallel.pp=3"},
      {"parallel.pp=3", "parallel.split=[1,1,2]"},
      {"parallel.pp=3", "parallel.split=[2,1,1]"},
      {"parallel.pp=2", "parallel.split=[3,1]", "parallel.schedule=gpipe"},
      {"parallel.pp=2", "parallel.split=[1,3]", "parallel.workers=threads"},
  };
  for (const auto& keys : variants) {
    INFO(fmt::format("{}", with_keys({"troupe run"}, keys).back()));
    CHECK(train(scratch, keys) == expected);
  }
}

TEST_CASE("clipping and a learning rate that changes keep the bits across stages", "[same_bits]") {
  const scratch_folder scratch;
  const std::vector<std::string> recipe = {"train.clip=0.5", "train.warmup_steps=5", "train.min_lr_ratio=0.1"};
  auto one = recipe, three = recipe;
  one.insert(one.end(), {"parallel.pp=1", "parallel.workers=threads"});
  three.push_back("parallel.pp=3");
  const auto expected = train(scratch, one);
  CHECK(train(scratch, three) == expected);
  CHECK_FALSE(expected == reference(scratch, true));
}

TEST_CASE("another seed gives other bits", "[same_bits]") {
  const scratch_folder scratch;
  const auto one = train(scratch, {"parallel.pp=2", "train.seed=1"});
  const auto two = train(scratch, {"parallel.pp=2", "train.seed=2"});
  CHECK(one.loss_bits.front() != two.loss_bits.front());
}

TEST_CASE("a program with a model of its own trains to the same bits in threads and in processes", "[same_bits]") {
  const scratch_folder scratch;
  const auto train_with = [&](const std::string& workers) {
    const auto directory = scratch / workers;
    const auto end = run(with_keys(
        {CUSTOM_STAGE_PROGRAM, "run", CUSTOM_STAGE_CONFIG, "--run-dir", directory.string(), "--workers", workers},
        {"train.steps=20", "parallel.oversubscribe=true"}));
    INFO(end.err);
    REQUIRE(end.code == 0);
    return read_trajectory(directory);
  };
  CHECK(train_with("threads") == train_with("processes"));
}
