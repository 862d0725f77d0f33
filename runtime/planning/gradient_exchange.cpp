#include "runtime/planning/gradient_exchange.hpp"

#include <algorithm>

namespace troupe::planning {

namespace {

double as_double(std::int64_t n) { return static_cast<double>(n); }

link_speed ring_of(const laid_out_plan& l, std::uint32_t stage) {
  const auto together = l.where.replicas_together(stage);
  if (together == l.plan.extents.replicas) return l.on.inside;
  // Every replica of the node carries a ring of its own over its device's share of the network.
  return {std::min(l.on.inside.bytes_per_s, together * l.on.between.bytes_per_s), l.on.between.latency_s};
}

double exchange_of(const laid_out_plan& l, std::uint32_t stage, std::int64_t parameters) {
  const auto bytes = as_double(parameters * l.plan.numbers.gradient);
  return all_reduce_s(bytes, l.plan.extents.replicas, ring_of(l, stage)) * (l.plan.split_optimizer ? 0.5 : 1);
}

std::vector<std::uint32_t> virtual_stages_of(const laid_out_plan& l, std::uint32_t stage) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t c = 0; c < l.order.chunks; ++c) all.push_back(l.order.virtual_stage(stage, c));
  return all;
}

double stage_gradients_end(const laid_out_plan& l, const gradient_times& t, std::uint32_t stage) {
  auto chunks = virtual_stages_of(l, stage);
  std::ranges::sort(chunks, {}, [&](std::uint32_t v) { return t.last[v].end; });
  double free = 0;
  for (const auto v : chunks) {
    const auto length = exchange_of(l, stage, l.chunks[v].costs.parameters);
    const auto pieces = static_cast<double>(l.chunks[v].pieces);
    const auto& last = t.last[v];
    if (l.on.overlaps_gradients)
      free =
          std::max(last.end + length / pieces, std::max(free, last.start + (last.end - last.start) / pieces) + length);
    else
      free = std::max(free, t.stage_end[stage]) + length;
  }
  return std::max(free, t.stage_end[stage]);
}

// Parameters, gradients, moments and, where values are short, their f32 copy: read and, but for gradients, written; and
// gradients read once more for their norm.
double optimizer_s(const laid_out_plan& l, std::int64_t parameters) {
  const auto& n = l.plan.numbers;
  const double bytes = as_double(2 * n.gradient + 2 * n.state + (n.half ? n.value : 2 * n.value));
  const double share = l.plan.split_optimizer ? 1.0 / l.plan.extents.replicas : 1.0;
  return as_double(parameters) * bytes * share / l.on.memory_bytes_per_s;
}

}  // namespace

void note_last_backwards(gradient_times& t, const schedule& s, const virtual_run& run) {
  t.last.resize(s.virtual_stages());
  t.stage_end.resize(s.stages, 0);
  for (std::uint32_t i = 0; i < s.stages; ++i) {
    for (std::size_t k = 0; k < s.actions[i].size(); ++k) {
      const auto& a = s.actions[i][k];
      if (a.what != pass::backward && a.what != pass::backward_weight) continue;
      auto& last = t.last[s.virtual_stage(i, a.chunk)];
      if (run.actions[i][k].end > last.end) last = run.actions[i][k];
    }
    t.stage_end[i] = std::max(t.stage_end[i], run.actions[i].back().end);
  }
}

double exchange_s(const laid_out_plan& l, std::uint32_t stage) {
  std::int64_t parameters = 0;
  for (const auto v : virtual_stages_of(l, stage)) parameters += l.chunks[v].costs.parameters;
  return exchange_of(l, stage, parameters);
}

double gradients_end(const laid_out_plan& l, const gradient_times& times) {
  std::vector<double> end;
  for (std::uint32_t i = 0; i < l.order.stages; ++i) end.push_back(stage_gradients_end(l, times, i));
  const auto head = place_of(l.order, l.order.virtual_stages() - 1).stage;
  if (l.plan.model.tied && head != 0) {
    const auto& link = l.where.node_of(0, 0) == l.where.node_of(0, head) ? l.on.inside : l.on.between;
    const auto bytes = as_double(l.chunks.front().costs.table * l.plan.numbers.gradient);
    end[head] = end[0] = std::max(end[head], end[0]) + link.latency_s + bytes / link.bytes_per_s;
  }
  return *std::ranges::max_element(end);
}

double update_s(const laid_out_plan& l, const std::vector<stage_memory>& memory) {
  double longest = 0;
  for (std::uint32_t i = 0; i < l.order.stages; ++i) {
    double time = optimizer_s(l, memory[i].parameters);
    if (l.plan.split_optimizer)
      time += all_reduce_s(as_double(memory[i].parameter_bytes), l.plan.extents.replicas, ring_of(l, i)) / 2;
    longest = std::max(longest, time);
  }
  const auto& control = l.where.nodes_used() > 1 ? l.on.between : l.on.inside;
  return longest + 2 * control.latency_s;
}

}  // namespace troupe::planning
