#include "runtime/planning/piece_costs.hpp"

namespace troupe::planning {

namespace {

constexpr std::int64_t statistic_bytes = 4;  // means, deviations, logits: always f32

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t shards(const training_plan& p) { return p.extents.shards; }
std::int64_t tokens(const training_plan& p) { return p.micro_batch * p.model.seq_len; }
std::int64_t local_tokens(const training_plan& p) { return p.rows_are_cut() ? tokens(p) / shards(p) : tokens(p); }
std::int64_t table_rows(const training_plan& p) { return ceil_div(p.model.vocab, shards(p)); }

std::int64_t block_parameters(const training_plan& p) {
  const auto h = p.model.hidden, t = shards(p);
  const std::int64_t whole = 4 * h + 2 * h;  // both norms; biases of what ends a parallel region
  return whole + (12 * h * h + 3 * h + 4 * h) / t;
}

double weight_flops(const training_plan& p) {
  const auto h = static_cast<double>(p.model.hidden);
  return 24.0 * static_cast<double>(tokens(p)) * h * h / static_cast<double>(shards(p));
}

double attention_flops(const training_plan& p) {
  const auto context = p.blocks == engine::troupe ? (static_cast<double>(p.model.seq_len) + 1) / 2
                                                  : static_cast<double>(p.model.seq_len);
  return 4.0 * static_cast<double>(tokens(p)) * context * static_cast<double>(p.model.hidden) /
         static_cast<double>(shards(p));
}

struct kept {
  std::int64_t all = 0, without_attention = 0, input = 0, after_input = 0;
};

kept kept_by_troupe(const training_plan& p) {
  const auto h = p.model.hidden, t = shards(p), n = tokens(p), value = p.numbers.value;
  const auto input = local_activation_bytes(p);
  const auto statistics = 2 * 2 * statistic_bytes * local_tokens(p);
  const auto attention = n * (h / t * value + p.model.heads / t * statistic_bytes);
  const auto qkv_and_expanded = n * 7 * h / t * value;
  kept k;
  k.input = input;
  k.without_attention = 2 * input + qkv_and_expanded + statistics;  // x, and x plus attention
  k.all = k.without_attention + attention;
  // Inputs of both norms and the gradients of their outputs; attended, expanded, and the gradients of qkv and expanded;
  // the gradients that both regions were given, every row.
  k.after_input = 4 * input + statistics + n * 12 * h / t * value + 2 * activation_bytes(p);
  return k;
}

kept kept_by_megatron(const training_plan& p) {
  const auto t = shards(p), whole = tokens(p) * p.model.hidden, outside = p.rows_are_cut() ? whole / t : whole;
  kept k;
  k.input = 2 * outside;
  k.without_attention = 10 * outside + 24 * whole / t;
  k.all = k.without_attention + 5 * p.model.heads * p.model.seq_len * tokens(p) / t;
  k.after_input = 32 * whole / t;
  return k;
}

}  // namespace

std::int64_t activation_bytes(const training_plan& p) { return tokens(p) * p.model.hidden * p.numbers.value; }
std::int64_t local_activation_bytes(const training_plan& p) {
  return local_tokens(p) * p.model.hidden * p.numbers.value;
}

piece_costs embedding_costs(const training_plan& p) {
  piece_costs c;
  c.table = table_rows(p) * p.model.hidden;
  c.parameters = c.table + p.model.seq_len * p.model.hidden;
  const auto whole = activation_bytes(p);
  c.forward.traffic_bytes = 2.0 * static_cast<double>(whole);
  c.backward_weight.traffic_bytes = 2.0 * static_cast<double>(whole);
  c.kept_bytes = tokens(p) * 4;  // the tokens, i32
  c.kept_after_input_bytes = c.kept_bytes + whole;
  if (shards(p) > 1) c.forward.reductions = p.rows_are_cut() ? 0.5 : 1;
  if (p.rows_are_cut()) c.backward_input.reductions = 0.5;
  return c;
}

piece_costs block_costs(const training_plan& p) {
  const auto k = p.blocks == engine::troupe ? kept_by_troupe(p) : kept_by_megatron(p);
  const double weights = weight_flops(p), attention = attention_flops(p), traffic = 2.0 * static_cast<double>(k.all);
  const double regions = shards(p) > 1 ? 2 : 0;
  piece_costs c;
  c.parameters = block_parameters(p);
  c.forward = {weights + attention, traffic, regions};
  c.backward_input = {weights + 2 * attention, 2 * traffic, regions};
  c.backward_weight = {weights, 0, p.blocks == engine::troupe && p.rows_are_cut() ? regions / 2 : 0};
  c.kept_bytes = k.all;
  c.kept_after_input_bytes = k.after_input;
  if (p.recompute == recomputing::selective) {
    c.kept_bytes = k.without_attention;
    c.recompute = {attention, 2.0 * static_cast<double>(k.all - k.without_attention), 0};
    c.recomputed_bytes = k.all - c.kept_bytes;
  } else if (p.recompute == recomputing::full) {
    c.kept_bytes = k.input;
    c.recompute = c.forward;
    c.recomputed_bytes = k.all - c.kept_bytes;
  }
  return c;
}

piece_costs head_costs(const training_plan& p) {
  piece_costs c;
  const auto h = p.model.hidden, table = table_rows(p) * h;
  c.parameters = table + 2 * h;
  c.table = p.model.tied ? table : 0;
  const double flops = 2.0 * static_cast<double>(tokens(p)) * static_cast<double>(h) *
                       static_cast<double>(p.model.vocab) / static_cast<double>(shards(p));
  const auto logits = tokens(p) * table_rows(p) * statistic_bytes, input = local_activation_bytes(p);
  const auto statistics = 2 * statistic_bytes * local_tokens(p);
  c.forward = {flops, 3.0 * static_cast<double>(logits), p.rows_are_cut() ? 0.5 : 0};
  c.backward_input = {flops, static_cast<double>(logits), shards(p) > 1 ? (p.rows_are_cut() ? 0.5 : 1) : 0.0};
  c.backward_weight = {flops, 0, p.blocks == engine::troupe && p.rows_are_cut() ? 0.5 : 0};
  c.kept_bytes = input + statistics + logits;
  c.kept_after_input_bytes = 2 * input + statistics + logits;
  return c;
}

double model_flops(const training_plan& p) {
  const auto of_piece = [](const piece_costs& c) {
    return c.forward.flops + c.backward_input.flops + c.backward_weight.flops;
  };
  const double of_shard = static_cast<double>(p.model.layers) * of_piece(block_costs(p)) + of_piece(head_costs(p));
  return of_shard * static_cast<double>(shards(p)) * static_cast<double>(p.global_batch) /
         static_cast<double>(p.micro_batch);
}

double recomputed_flops(const training_plan& p) {
  return static_cast<double>(p.model.layers) * block_costs(p).recompute.flops * static_cast<double>(shards(p)) *
         static_cast<double>(p.global_batch) / static_cast<double>(p.micro_batch);
}

}  // namespace troupe::planning
