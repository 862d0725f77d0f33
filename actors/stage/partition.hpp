#pragma once

#include <cstddef>
#include <vector>

#include "kernels/core/result.hpp"
#include "kernels/layers/layer.hpp"

namespace troupe {

/// Layers per stage, in order.
using stage_split = std::vector<std::size_t>;

/// The contiguous split of `costs` over `stages` stages, at least one layer each, whose dearest stage is cheapest;
/// among equals the one with the longest last stages. Errors: `invalid_argument` when there are more stages than
/// layers.
result<stage_split> balance(const std::vector<double>& costs, std::size_t stages);

/// The specs between layers: element i is layer i's input, the last one is the loss.
/// Errors: whatever a layer has against its input, with its name.
result<std::vector<tensor_spec>> infer_specs(const layer_list& layers, const tensor_spec& input);

/// Forward FLOPs of each layer of a model for one micro-batch.
std::vector<double> forward_costs(const layer_list& layers, const std::vector<tensor_spec>& specs);

}  // namespace troupe
