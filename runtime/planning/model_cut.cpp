#include "runtime/planning/model_cut.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "actors/stage/partition.hpp"

namespace troupe::planning {

namespace {

result<stage_split> split_of(const training_plan& p, const piece_costs& block, const piece_costs& head) {
  const auto pieces = static_cast<std::size_t>(p.pieces());
  const auto wanted = std::size_t{p.extents.stages} * p.chunks;
  if (wanted > pieces)
    return invalid(
        fmt::format("{} stages with {} chunks each are more than the {} pieces of the model (embedding and "
                    "head counted); choose fewer stages or chunks",
                    p.extents.stages, p.chunks, pieces));
  if (!p.split.empty()) {
    const bool empty_stage = std::ranges::find(p.split, std::size_t{0}) != p.split.end();
    if (empty_stage || p.split.size() != wanted ||
        std::accumulate(p.split.begin(), p.split.end(), std::size_t{0}) != pieces)
      return invalid(fmt::format("the split must name {} chunks with {} pieces together", wanted, pieces));
    return p.split;
  }
  std::vector<double> costs(pieces, block.forward.flops);
  costs.front() = static_cast<double>(p.micro_batch * p.model.seq_len * p.model.hidden);  // as `gpt_embedding` counts
  costs.back() = head.forward.flops;
  return balance(costs, wanted);
}

void add(chunk_costs& into, const piece_costs& piece) {
  auto& c = into.costs;
  ++into.pieces;
  c.parameters += piece.parameters;
  c.table += piece.table;
  c.forward += piece.forward;
  c.backward_input += piece.backward_input;
  c.backward_weight += piece.backward_weight;
  c.recompute += piece.recompute;
  c.kept_bytes += piece.kept_bytes;
  c.kept_after_input_bytes += piece.kept_after_input_bytes;
  c.recomputed_bytes = std::max(c.recomputed_bytes, piece.recomputed_bytes);
}

std::int64_t peak_activation_bytes(const std::vector<chunk_costs>& chunks, const schedule& s, std::uint32_t stage) {
  std::int64_t now = 0, peak = 0;
  for (const auto& a : s.actions[stage]) {
    const auto& c = chunks[s.virtual_stage(stage, a.chunk)].costs;
    switch (a.what) {
      case pass::forward:
        now += c.kept_bytes;
        peak = std::max(peak, now);
        break;
      case pass::backward:
        peak = std::max(peak, now + c.recomputed_bytes);
        now -= c.kept_bytes;
        break;
      case pass::backward_input:
        peak = std::max(peak, now + c.recomputed_bytes);
        now += c.kept_after_input_bytes - c.kept_bytes;
        peak = std::max(peak, now);
        break;
      case pass::backward_weight:
        now -= c.kept_after_input_bytes;
        break;
    }
  }
  return peak;
}

}  // namespace

result<std::vector<chunk_costs>> cut_model(const training_plan& p) {
  const auto embedding = embedding_costs(p), block = block_costs(p), head = head_costs(p);
  TROUPE_TRY(const auto split, split_of(p, block, head));
  const auto pieces = static_cast<std::size_t>(p.pieces());
  std::vector<chunk_costs> chunks(split.size());
  std::size_t piece = 0;
  for (std::size_t v = 0; v < split.size(); ++v)
    for (std::size_t k = 0; k < split[v]; ++k, ++piece) {
      auto& chunk = chunks[v];
      const bool first = piece == 0, last = piece + 1 == pieces;
      add(chunk, first ? embedding : last ? head : block);
      chunk.embedding |= first;
      chunk.head |= last;
      chunk.layers += !first && !last;
    }
  return chunks;
}

stage_memory memory_without_activations(const training_plan& p, const std::vector<chunk_costs>& chunks,
                                        const schedule& s, std::uint32_t stage) {
  stage_memory m;
  std::int64_t uses = 0, largest_table = 0, tables = 0;
  for (std::uint32_t c = 0; c < s.chunks; ++c) {
    const auto& chunk = chunks[s.virtual_stage(stage, c)];
    m.layers += chunk.layers;
    uses += chunk.costs.parameters;
    if (p.model.tied) {
      tables += chunk.costs.table;
      if (chunk.costs.table > 0) largest_table = embedding_costs(p).table;
    }
  }
  m.parameters = uses - (tables - largest_table);
  m.parameter_bytes = m.parameters * p.numbers.value;
  m.gradient_bytes = uses * p.numbers.gradient;
  m.state_bytes = m.parameters * p.numbers.state;
  const std::int64_t replicas = p.extents.replicas;
  if (p.split_optimizer) m.state_bytes = (m.state_bytes + replicas - 1) / replicas;
  return m;
}

stage_memory memory_of_stage(const training_plan& p, const std::vector<chunk_costs>& chunks, const schedule& s,
                             std::uint32_t stage) {
  auto m = memory_without_activations(p, chunks, s, stage);
  m.activation_bytes = peak_activation_bytes(chunks, s, stage);
  return m;
}

}  // namespace troupe::planning
