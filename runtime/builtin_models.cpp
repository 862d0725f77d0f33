#include "runtime/builtin_models.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/layers/gpt.hpp"
#include "runtime/text_source.hpp"

namespace troupe {

std::vector<model_definition> builtin_models() {
  return {
      {"gpt",
       [](const model_settings& s) {
         return make_gpt({s.layers, s.hidden, s.heads, s.seq_len, s.vocab, s.tied, s.shards, s.recompute_attention});
       },
       [](const model_settings& s) { return text_source::open(s); }, true}};
}

result<model_definition> find_model(const std::vector<model_definition>& models, std::string_view kind) {
  std::vector<std::string_view> known;
  for (const auto& m : models) {
    if (m.kind == kind) return m;
    known.push_back(m.kind);
  }
  return invalid(
      fmt::format("model.kind: no model is called '{}'; this program has: {}", kind, fmt::join(known, ", ")));
}

}  // namespace troupe
