#include "kernels/layers/gpt_activation.hpp"

#include <fmt/format.h>

namespace troupe {

namespace {
bool rows_are_cut(const gpt_config& config) { return config.shards.sequence && !config.shards.alone(); }
}  // namespace

shape whole_activation(const gpt_config& config, const shape& local) {
  if (!rows_are_cut(config)) return local;
  return {local[0] * config.shards.size / config.seq_len, config.seq_len, local[1]};
}

status check_activation(const gpt_config& config, std::string_view layer, const tensor_spec& in) {
  const auto& dims = in.dims;
  const bool is_rows = in.type == dtype::f32 && dims.elements() > 0 && dims.back() == config.hidden;
  if (rows_are_cut(config)) {
    if (is_rows && dims.rank() == 2 && dims[0] * config.shards.size % config.seq_len == 0) return {};
    return invalid(fmt::format("{}: the input is {}, not f32 [B·{}/{}, {}]: the rows of a tensor shard", layer,
                               to_string(in), config.seq_len, config.shards.size, config.hidden));
  }
  if (is_rows && dims.rank() == 3 && dims[1] <= config.seq_len) return {};
  return invalid(fmt::format("{}: the input is {}, not f32 [B, S, {}] with S up to model.seq_len = {}", layer,
                             to_string(in), config.hidden, config.seq_len));
}

}  // namespace troupe
