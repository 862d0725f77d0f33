// The first values of a model are the same numbers however it is cut: those of all shards, put together, give the same
// bytes.

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "actors/stage/stage.hpp"
#include "catch.hpp"
#include "kernels/layers/gpt.hpp"

using namespace troupe;

namespace {

using whole_model = std::map<std::string, std::vector<float>>;

// Puts a shard's part of each parameter in its place; what two shards both hold must agree.
void gather(whole_model& model, const stage& part) {
  for (const auto& p : part.parameters()) {
    const auto& extents = p.spec.cut() ? p.spec.whole : p.spec.dims;
    const auto [found, fresh] = model.try_emplace(p.spec.name, static_cast<std::size_t>(extents.elements()), 1e30F);
    const auto values = p.value.values<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = p.spec.slice(static_cast<std::int64_t>(i));
      if (at >= extents.elements()) {
        REQUIRE(values[i] == 0);  // padding
        continue;
      }
      auto& place = found->second[static_cast<std::size_t>(at)];
      REQUIRE((place == 1e30F || std::memcmp(&place, &values[i], sizeof place) == 0));
      place = values[i];
    }
  }
}

whole_model gathered(std::size_t stages, std::uint32_t shards, std::uint32_t replicas, bool split_optimizer) {
  whole_model model;
  auto ops = std::move(make_cpu_backend()).value();
  for (std::uint32_t rank = 0; rank < shards; ++rank)
    for (std::size_t i = 0; i < stages; ++i)
      for (std::uint32_t replica = 0; replica < replicas; ++replica) {
        gpt_config config{2, 24, 4, 8, 19, true};
        config.shards = {shards, rank, shards > 1};
        auto layers = make_gpt(config);
        REQUIRE(layers);
        const tensor_spec tokens{dtype::i32, {2, 8}};
        const auto specs = infer_specs(*layers, tokens);
        REQUIRE(specs);
        const auto split = balance(forward_costs(*layers, *specs), stages);
        REQUIRE(split);
        const auto table = parameter_table::make(*layers, *split);
        REQUIRE(table);
        stage_settings s;
        s.stage = i;
        s.replica = replica;
        s.replicas = replicas;
        s.split_optimizer = split_optimizer;
        const auto made = stage::make(std::move(*layers), *split, *table, tokens, *ops, s);
        REQUIRE(made);
        gather(model, *made);
      }
  return model;
}

}  // namespace

TEST_CASE("the first values of the whole model are the same bytes under every mesh", "[initial_weights]") {
  const auto alone = gathered(1, 1, 1, false);
  REQUIRE(alone.size() == 2 + 2 * 12 + 2);
  for (const auto& [name, values] : alone) {
    CAPTURE(name);
    REQUIRE(std::find(values.begin(), values.end(), 1e30F) == values.end());
  }
  for (std::size_t stages : {1, 2, 4})
    for (std::uint32_t shards : {1, 2, 4})
      for (std::uint32_t replicas : {1, 2, 4}) {
        CAPTURE(stages, shards, replicas);
        CHECK(gathered(stages, shards, replicas, replicas > 1) == alone);
      }
}
