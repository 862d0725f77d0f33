#include "kernels/layers/gpt_embedding.hpp"

#include <fmt/format.h>

namespace troupe {

namespace {
enum parameter : std::size_t { wte, wpe };
enum slot : std::size_t { input, d_output };
}  // namespace

parameter_spec token_table(const gpt_config& config) {
  return row_slice(config.shards,
                   {"wte.weight", {config.vocab, config.hidden}, {initial_value::kind::normal, 0.02F}, true});
}

std::vector<parameter_spec> gpt_embedding::parameters() const {
  return {token_table(config_),
          {"wpe.weight", {config_.seq_len, config_.hidden}, {initial_value::kind::normal, 0.02F}, true}};
}

result<tensor_spec> gpt_embedding::output(const tensor_spec& in) const {
  if (in.type != dtype::i32 || in.dims.rank() != 2 || in.dims.elements() == 0 || in.dims[1] > config_.seq_len)
    return invalid(fmt::format("embedding: the input is {}, not tokens i32 [B, S] with S up to model.seq_len = {}",
                               to_string(in), config_.seq_len));
  const auto rows = in.dims.elements();
  if (!config_.shards.sequence) return tensor_spec{dtype::f32, {in.dims[0], in.dims[1], config_.hidden}};
  if (in.dims[1] != config_.seq_len || rows % config_.shards.size != 0)
    return invalid(
        fmt::format("embedding: {} tokens cannot be cut over {} tensor shards; sequence parallelism needs "
                    "whole sequences of model.seq_len = {} and rows that parallel.tp divides",
                    rows, config_.shards.size, config_.seq_len));
  return tensor_spec{dtype::f32, {rows / config_.shards.size, config_.hidden}};
}

double gpt_embedding::forward_flops(const tensor_spec& in) const {
  return static_cast<double>(in.dims.elements()) * static_cast<double>(config_.hidden);
}

result<tensor> gpt_embedding::forward(layer_call& call, const tensor& tokens, kept_tensors& keep) {
  TROUPE_TRY(const auto spec, output(tokens.spec()));
  const auto& tp = config_.shards;
  TROUPE_TRY(tensor y, tensor::make(call.memory, {dtype::f32, {tokens.dims()[0], tokens.dims()[1], config_.hidden}}));
  keep.put(input, tokens);
  if (tp.alone()) {
    TROUPE_CHECK(call.ops.embedding(tokens, call.parameters[wte].value, call.parameters[wpe].value, y));
    return y;
  }
  // One shard alone adds the positions: the sum has the bits of the uncut embedding.
  TROUPE_CHECK(call.ops.embedding_slice(tokens, classes_of(tp, config_.vocab), call.parameters[wte].value,
                                        tp.rank == 0 ? call.parameters[wpe].value : tensor(), y));
  return sum_of_shards(call, tp, std::move(y), spec.dims);
}

result<tensor> gpt_embedding::backward_input(layer_call& call, const tensor& dy, kept_tensors& keep) {
  const auto& tokens = keep.at(input);
  TROUPE_TRY(tensor whole, all_rows(call, config_.shards, dy, {tokens.dims()[0], tokens.dims()[1], config_.hidden}));
  keep.put(d_output, std::move(whole));
  return tensor();  // tokens have no gradient
}

status gpt_embedding::backward_weight(layer_call& call, kept_tensors& keep) {
  const auto tokens = keep.take(input), dy = keep.take(d_output);
  const auto &d_tokens = call.parameters[wte].gradient, &d_positions = call.parameters[wpe].gradient;
  if (config_.shards.alone()) return call.ops.embedding_backward(dy, tokens, d_tokens, d_positions);
  return call.ops.embedding_slice_backward(dy, tokens, classes_of(config_.shards, config_.vocab), d_tokens,
                                           d_positions);
}

}  // namespace troupe
