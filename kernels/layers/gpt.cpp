#include "kernels/layers/gpt.hpp"

#include <fmt/format.h>

#include "kernels/layers/gpt_block.hpp"
#include "kernels/layers/gpt_embedding.hpp"
#include "kernels/layers/gpt_head.hpp"

namespace troupe {

namespace {

status check(const gpt_config& config) {
  // Keeps every product of extents far from overflow.
  constexpr std::int64_t largest = 1 << 24;
  const std::pair<const char*, std::int64_t> extents[] = {{"layers", config.layers},
                                                          {"hidden", config.hidden},
                                                          {"heads", config.heads},
                                                          {"seq_len", config.seq_len},
                                                          {"vocab", config.vocab}};
  for (const auto& [key, value] : extents)
    if (value < 1 || value > largest)
      return invalid(fmt::format("model.{} is {}; it must be 1 to {}", key, value, largest));
  if (config.hidden % config.heads != 0)
    return invalid(
        fmt::format("model.heads is {}, which does not divide model.hidden, {}", config.heads, config.hidden));
  if (config.heads % config.shards.size != 0)
    return invalid(
        fmt::format("parallel.tp is {}, which does not divide model.heads, {}", config.shards.size, config.heads));
  return {};
}

}  // namespace

result<layer_list> make_gpt(const gpt_config& config) {
  TROUPE_CHECK(check(config));
  layer_list layers;
  layers.push_back(std::make_unique<gpt_embedding>(config));
  for (std::int64_t i = 0; i < config.layers; ++i) layers.push_back(std::make_unique<gpt_block>(config, i));
  layers.push_back(std::make_unique<gpt_head>(config));
  return layers;
}

}  // namespace troupe
