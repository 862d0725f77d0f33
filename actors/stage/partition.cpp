#include "actors/stage/partition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace troupe {

result<stage_split> balance(const std::vector<double>& costs, std::size_t stages) {
  const auto n = costs.size();
  if (stages == 0 || stages > n)
    return invalid(
        fmt::format("{} stages need at least as many layers, and the model has {} (embedding and head "
                    "counted); set parallel.pp to at most {}",
                    stages, n, n));
  std::vector<double> sum(n + 1, 0);
  for (std::size_t i = 0; i < n; ++i) sum[i + 1] = sum[i] + costs[i];

  // best[s][i]: the dearest stage when the first i layers stand on s stages; from[s][i]: where the last one begins.
  const auto unreachable = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(stages + 1, std::vector<double>(n + 1, unreachable));
  std::vector<std::vector<std::size_t>> from(stages + 1, std::vector<std::size_t>(n + 1, 0));
  best[0][0] = 0;
  for (std::size_t s = 1; s <= stages; ++s)
    for (std::size_t i = s; i <= n; ++i)
      for (std::size_t j = s - 1; j < i; ++j)
        if (const double cost = std::max(best[s - 1][j], sum[i] - sum[j]); cost < best[s][i]) {
          best[s][i] = cost;
          from[s][i] = j;
        }

  stage_split split(stages);
  for (std::size_t s = stages, end = n; s > 0; --s) {
    split[s - 1] = end - from[s][end];
    end = from[s][end];
  }
  return split;
}

result<std::vector<tensor_spec>> infer_specs(const layer_list& layers, const tensor_spec& input) {
  std::vector<tensor_spec> specs{input};
  for (const auto& l : layers) {
    auto out = l->output(specs.back());
    if (!out) return error{out.error().code, fmt::format("layer {}: {}", l->name(), out.error().where)};
    specs.push_back(*out);
  }
  return specs;
}

std::vector<double> forward_costs(const layer_list& layers, const std::vector<tensor_spec>& specs) {
  std::vector<double> costs;
  for (std::size_t i = 0; i < layers.size(); ++i) costs.push_back(layers[i]->forward_flops(specs[i]));
  return costs;
}

}  // namespace troupe
