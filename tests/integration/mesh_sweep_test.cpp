// The mesh: every combination of stages, replicas and tensor shards trains the same model.

#include <fmt/format.h>

#include <cmath>

#include "catch.hpp"
#include "tiny_run.hpp"

using namespace troupe::whole;

namespace {

constexpr std::size_t steps = 20;

trajectory train(const scratch_folder& scratch, std::vector<std::string> keys) {
  keys.insert(keys.begin(), {"model.heads=4", fmt::format("train.steps={}", steps)});
  return troupe::whole::train(scratch, keys, steps);
}

std::vector<std::string> mesh_keys(int pp, int dp, int tp) {
  return {fmt::format("parallel.pp={}", pp), fmt::format("parallel.dp={}", dp), fmt::format("parallel.tp={}", tp)};
}

std::vector<std::string> with(std::vector<std::string> keys, const std::vector<std::string>& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

// The largest relative difference of two loss curves.
double deviation(const trajectory& a, const trajectory& b) {
  double largest = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    const double x = std::stod(a.loss_text[i]), y = std::stod(b.loss_text[i]);
    largest = std::max(largest, std::abs(x - y) / y);
  }
  return largest;
}

}  // namespace

TEST_CASE("every mesh of up to eight shards gives the losses of one shard, and the same bits twice", "[mesh]") {
  const scratch_folder scratch;
  const auto alone = train(scratch, mesh_keys(1, 1, 1));
  CHECK(std::stod(alone.loss_text.back()) < std::stod(alone.loss_text.front()) - 0.3);  // it does train
  for (int pp : {1, 2, 4})
    for (int dp : {1, 2, 4})
      for (int tp : {1, 2, 4}) {
        if (pp * dp * tp > 8) continue;
        INFO(fmt::format("pp {}, dp {}, tp {}", pp, dp, tp));
        const auto threads = train(scratch, with(mesh_keys(pp, dp, tp), {"parallel.workers=threads"}));
        const auto processes = train(scratch, with(mesh_keys(pp, dp, tp), {"parallel.workers=processes"}));
        CHECK(threads == processes);
        CHECK(deviation(threads, alone) < 1e-4);
        if (dp == 1 && tp == 1) CHECK(threads == alone);
      }
}

TEST_CASE("splitting the optimizer over replicas changes no bit", "[mesh]") {
  const scratch_folder scratch;
  for (const auto& mesh : {mesh_keys(1, 2, 1), mesh_keys(1, 4, 1), mesh_keys(2, 2, 1), mesh_keys(2, 2, 2)})
    for (const char* workers : {"threads", "processes"}) {
      const auto keys = with(mesh, {fmt::format("parallel.workers={}", workers), "train.clip=0.5"});
      INFO(fmt::format("{}, {}", mesh[0] + " " + mesh[1] + " " + mesh[2], workers));
      CHECK(train(scratch, with(keys, {"parallel.zero=0"})) == train(scratch, with(keys, {"parallel.zero=1"})));
    }
}

TEST_CASE("the size of a bucket changes no loss, and three replicas train too", "[mesh]") {
  const scratch_folder scratch;
  const auto keys = with(mesh_keys(2, 3, 1), {"train.global_batch=12", "parallel.zero=1"});
  CHECK(deviation(train(scratch, with(keys, {"parallel.bucket_kib=1"})), train(scratch, keys)) < 1e-6);
  const auto one = with(mesh_keys(1, 1, 1), {"train.global_batch=12"});
  CHECK(deviation(train(scratch, keys), train(scratch, one)) < 1e-4);
}

TEST_CASE("cutting rows outside the matrix products hardly changes the losses", "[mesh]") {
  const scratch_folder scratch;
  for (const auto& mesh : {mesh_keys(1, 1, 2), mesh_keys(2, 1, 4), mesh_keys(2, 2, 2)}) {
    const auto on = train(scratch, with(mesh, {"parallel.sequence_parallel=true"}));
    const auto off = train(scratch, with(mesh, {"parallel.sequence_parallel=false"}));
    CHECK(deviation(on, off) < 1e-5);
  }
}

TEST_CASE("a vocabulary that tensor shards cannot share evenly is padded, and trains the same", "[mesh]") {
  const scratch_folder scratch;
  const std::vector<std::string> vocabulary = {"model.vocab=259"};
  const auto alone = train(scratch, with(mesh_keys(1, 1, 1), vocabulary));
  for (const char* tied : {"model.tied=true", "model.tied=false"}) {
    const auto one = train(scratch, with(mesh_keys(1, 1, 1), with(vocabulary, {tied})));
    CHECK(deviation(train(scratch, with(mesh_keys(2, 1, 4), with(vocabulary, {tied}))), one) < 1e-4);
  }
}

TEST_CASE("activations that are computed again change no bit", "[mesh]") {
  const scratch_folder scratch;
  for (const auto& mesh : {mesh_keys(2, 1, 1), mesh_keys(2, 2, 2)}) {
    const auto kept = train(scratch, with(mesh, {"train.recompute=none"}));
    CHECK(train(scratch, with(mesh, {"train.recompute=selective"})) == kept);
    CHECK(train(scratch, with(mesh, {"train.recompute=full"})) == kept);
  }
}
