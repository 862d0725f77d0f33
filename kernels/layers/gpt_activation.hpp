#pragma once

#include <string_view>

#include "kernels/layers/gpt.hpp"

namespace troupe {

/// What passes between a GPT's layers: f32 [B, S, H], or with sequence parallelism one shard's rows of it, f32
/// [B·S/tp, H]. Its whole extents, [B, S, H].
shape whole_activation(const gpt_config& config, const shape& local);
/// Errors: `invalid_argument`: what `layer` got and what it can take.
status check_activation(const gpt_config& config, std::string_view layer, const tensor_spec& in);

}  // namespace troupe
