#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/stage/partition.hpp"
#include "kernels/layers/layer.hpp"

namespace troupe {

/// One layer's use of one parameter. A parameter that several layers name has several uses, each with a gradient of its
/// own; they are added in the order of uses, so that the sum has the same bits wherever the layers run.
struct parameter_use {
  std::size_t layer = 0;
  std::size_t position = 0;   ///< in that layer's list
  std::size_t parameter = 0;  ///< index into `parameter_table::parameters`
  std::size_t stage = 0;
};

/// All parameters of a model in canonical order (first use), and who uses them. Built alike in every process.
struct parameter_table {
  std::vector<parameter_spec> parameters;
  std::vector<parameter_use> uses;

  /// Errors: two layers that share a name but not dims, initial value or decay.
  static result<parameter_table> make(const layer_list& layers, const stage_split& split);

  /// Stages that use `parameter`, ascending, each once. The first one counts its norm.
  std::vector<std::size_t> stages_of(std::size_t parameter) const;
  bool shared(std::size_t parameter) const;
};

}  // namespace troupe
