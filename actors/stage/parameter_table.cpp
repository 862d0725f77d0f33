#include "actors/stage/parameter_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace troupe {

namespace {

bool same_rule(const parameter_spec& a, const parameter_spec& b) {
  return a.dims == b.dims && a.decay == b.decay && a.init.how == b.init.how && a.init.amount == b.init.amount;
}

}  // namespace

result<parameter_table> parameter_table::make(const layer_list& layers, const stage_split& split) {
  parameter_table table;
  std::unordered_map<std::string, std::size_t> index;
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < split.size(); ++stage)
    for (std::size_t end = layer + split[stage]; layer < end; ++layer) {
      std::size_t position = 0;
      for (auto& spec : layers[layer]->parameters()) {
        const auto [found, fresh] = index.try_emplace(spec.name, table.parameters.size());
        if (!fresh && !same_rule(table.parameters[found->second], spec))
          return invalid(
              fmt::format("layer {} shares parameter {} with another layer under other extents, initial value "
                          "or decay ({})",
                          layers[layer]->name(), spec.name, to_string(spec.dims)));
        table.uses.push_back({layer, position++, found->second, stage});
        if (fresh) table.parameters.push_back(std::move(spec));
      }
    }
  return table;
}

std::vector<std::size_t> parameter_table::stages_of(std::size_t parameter) const {
  std::vector<std::size_t> stages;
  for (const auto& use : uses)
    if (use.parameter == parameter && (stages.empty() || stages.back() != use.stage)) stages.push_back(use.stage);
  return stages;
}

bool parameter_table::shared(std::size_t parameter) const {
  return std::count_if(uses.begin(), uses.end(), [&](const auto& u) { return u.parameter == parameter; }) > 1;
}

}  // namespace troupe
