#include "actors/stage/partition.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "catch.hpp"
#include "kernels/layers/gpt.hpp"

using namespace troupe;

namespace {

double dearest(const std::vector<double>& costs, const stage_split& split) {
  double worst = 0;
  std::size_t at = 0;
  for (auto n : split) {
    worst = std::max(worst, std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(at),
                                            costs.begin() + static_cast<std::ptrdiff_t>(at + n), 0.0));
    at += n;
  }
  return worst;
}

// The cheapest possible dearest stage, by trying every split.
double best_by_trial(const std::vector<double>& costs, std::size_t stages) {
  double best = 1e300;
  std::function<void(stage_split, std::size_t)> extend = [&](stage_split so_far, std::size_t used) {
    if (so_far.size() + 1 == stages) {
      if (used >= costs.size()) return;
      so_far.push_back(costs.size() - used);
      best = std::min(best, dearest(costs, so_far));
      return;
    }
    for (std::size_t n = 1; used + n < costs.size(); ++n) {
      auto next = so_far;
      next.push_back(n);
      extend(next, used + n);
    }
  };
  extend({}, 0);
  return best;
}

}  // namespace

TEST_CASE("the balanced split is as good as the best of all splits", "[partition]") {
  const std::vector<double> costs{0.1, 3, 1, 4, 1, 5, 9, 2, 0.5};
  for (std::size_t stages = 1; stages <= costs.size(); ++stages) {
    CAPTURE(stages);
    const auto split = balance(costs, stages);
    REQUIRE(split);
    CHECK(split->size() == stages);
    CHECK(std::accumulate(split->begin(), split->end(), std::size_t{0}) == costs.size());
    CHECK(std::all_of(split->begin(), split->end(), [](auto n) { return n >= 1; }));
    CHECK(dearest(costs, *split) == Approx(best_by_trial(costs, stages)));
  }
}

TEST_CASE("stages together hold every layer once, whatever the remainder", "[partition]") {
  for (std::size_t layers = 1; layers <= 33; ++layers)
    for (std::size_t stages = 1; stages <= layers; ++stages) {
      const auto split = balance(std::vector<double>(layers, 1.0), stages);
      REQUIRE(split);
      CHECK(std::accumulate(split->begin(), split->end(), std::size_t{0}) == layers);
    }
}

TEST_CASE("more stages than layers are refused with the largest pp that works", "[partition]") {
  const auto split = balance({1, 1, 1}, 4);
  REQUIRE_FALSE(split);
  CHECK(split.error().where.find("set parallel.pp to at most 3") != std::string::npos);
}

TEST_CASE("a gpt's costs count its embedding and its head", "[partition]") {
  auto layers = make_gpt({4, 64, 4, 32, 256, true});
  REQUIRE(layers);
  const auto specs = infer_specs(*layers, {dtype::i32, {2, 32}});
  REQUIRE(specs);
  CHECK(specs->size() == 7);
  CHECK(specs->back() == tensor_spec{dtype::f32, {1}});
  const auto costs = forward_costs(*layers, *specs);
  CHECK(costs.size() == 6);
  // A block: 24·B·S·H² for its matrices and 4·B·S²·H at most for attention; the head: 2·B·S·H·V and little more.
  CHECK(costs[1] >= 24.0 * 2 * 32 * 64 * 64);
  CHECK(costs[5] >= 2.0 * 2 * 32 * 64 * 256);
  CHECK(costs[0] < costs[1]);
}

TEST_CASE("a layer that cannot take its input is named", "[partition]") {
  auto layers = make_gpt({1, 64, 4, 32, 256, true});
  REQUIRE(layers);
  const auto specs = infer_specs(*layers, {dtype::f32, {2, 32}});
  REQUIRE_FALSE(specs);
  CHECK(specs.error().where.find("layer embedding") != std::string::npos);
}
