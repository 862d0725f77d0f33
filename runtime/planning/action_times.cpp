#include "runtime/planning/action_times.hpp"

#include <algorithm>

namespace troupe::planning {

namespace {

double as_double(std::int64_t n) { return static_cast<double>(n); }

// Bytes of a pipeline message that one tensor shard sends. Where every shard has the whole
// activation, Troupe's send it whole; Megatron-LM's send a piece each and gather it again on the other side.
double message_bytes(const training_plan& p) {
  const auto whole = as_double(activation_bytes(p));
  if (p.rows_are_cut() || p.blocks == engine::megatron_2021) return whole / p.extents.shards;
  return whole;
}

struct priced_work {
  double matrix = 0, elementwise = 0, collectives = 0;
  double total() const { return matrix + elementwise + collectives; }
};

priced_work price(const training_plan& p, const cluster& on, const work& w) {
  const double reduction = all_reduce_s(as_double(activation_bytes(p)), p.extents.shards, on.inside);
  const auto rows = as_double(p.micro_batch * p.model.seq_len);
  return {w.flops / on.flops_per_s(p.numbers, rows), w.traffic_bytes / on.memory_bytes_per_s, w.reductions * reduction};
}

bool at_border(const schedule& s, std::uint32_t from, std::uint32_t to) {
  return place_of(s, from).stage != place_of(s, to).stage;
}

}  // namespace

std::uint32_t messages_of(const schedule& s, std::uint32_t v) {
  std::uint32_t n = 0;
  if (v > 0) n += at_border(s, v - 1, v);
  if (v + 1 < s.virtual_stages()) n += at_border(s, v, v + 1);
  return n;
}

double hop_s(const training_plan& p, const cluster& on, bool inside) {
  const auto& link = inside ? on.inside : on.between;
  double gather = 0;
  if (p.blocks == engine::megatron_2021 && !p.rows_are_cut())
    gather = all_reduce_s(as_double(activation_bytes(p)), p.extents.shards, on.inside) / 2;
  return link.latency_s + message_bytes(p) / link.bytes_per_s + gather;
}

mesh_traffic traffic_of(const training_plan& p, const std::vector<chunk_costs>& chunks, const schedule& s) {
  mesh_traffic t{std::vector<double>(s.stages, 0), std::vector<double>(s.stages, 0)};
  const double there_and_back = 2.0 * s.micro_batches * message_bytes(p) * p.extents.shards;
  for (std::uint32_t v = 0; v < s.virtual_stages(); ++v) {
    const auto stage = place_of(s, v).stage;
    t.gradients[stage] += as_double(chunks[v].costs.parameters * p.numbers.gradient) * p.extents.shards;
    if (v + 1 == s.virtual_stages() || !at_border(s, v, v + 1)) continue;
    const auto next = place_of(s, v + 1).stage;
    t.neighbours[next == (stage + 1) % s.stages ? stage : next] += there_and_back;
  }
  return t;
}

chunk_seconds seconds_of(const training_plan& p, const cluster& on, const chunk_costs& chunk, std::uint32_t messages) {
  const auto& c = chunk.costs;
  const auto forward = price(p, on, c.forward), input = price(p, on, c.backward_input),
             weight = price(p, on, c.backward_weight), again = price(p, on, c.recompute);
  const double handling = messages * on.message_s;
  chunk_seconds s;
  s.forward = forward.total() + handling;
  s.backward_input = again.total() + input.total() + handling;
  s.backward_weight = weight.total();
  s.terms.matrix = forward.matrix + input.matrix + weight.matrix;
  s.terms.elementwise = forward.elementwise + input.elementwise + weight.elementwise;
  s.terms.collectives = forward.collectives + input.collectives + weight.collectives;
  s.terms.recompute = again.total();
  s.terms.messages = 2 * handling;
  return s;
}

double least_step_s(const training_plan& p, const cluster& on, const std::vector<chunk_costs>& chunks) {
  double all = 0, longest = 0;
  for (const auto& c : chunks) {
    const auto s = seconds_of(p, on, c, 0);
    const double chunk = s.forward + s.of(pass::backward);
    all += chunk;
    longest = std::max(longest, chunk);
  }
  return std::max(all / p.extents.stages, longest) * p.micro_batches();
}

}  // namespace troupe::planning
