#include "kernels/layers/gpt_embedding.hpp"

#include <fmt/format.h>

namespace troupe {

namespace {
enum parameter : std::size_t { wte, wpe };
enum slot : std::size_t { input, d_output };
}  // namespace

parameter_spec token_table(const gpt_config& config) {
  return {"wte.weight", {config.vocab, config.hidden}, {initial_value::kind::normal, 0.02F}, true};
}

std::vector<parameter_spec> gpt_embedding::parameters() const {
  return {token_table(config_),
          {"wpe.weight", {config_.seq_len, config_.hidden}, {initial_value::kind::normal, 0.02F}, true}};
}

result<tensor_spec> gpt_embedding::output(const tensor_spec& in) const {
  if (in.type != dtype::i32 || in.dims.rank() != 2 || in.dims.elements() == 0 || in.dims[1] > config_.seq_len)
    return invalid(fmt::format("embedding: the input is {}, not tokens i32 [B, S] with S up to model.seq_len = {}",
                               to_string(in), config_.seq_len));
  return tensor_spec{dtype::f32, {in.dims[0], in.dims[1], config_.hidden}};
}

double gpt_embedding::forward_flops(const tensor_spec& in) const {
  return static_cast<double>(in.dims.elements()) * static_cast<double>(config_.hidden);
}

result<tensor> gpt_embedding::forward(layer_call& call, const tensor& tokens, kept_tensors& keep) {
  TROUPE_TRY(const auto spec, output(tokens.spec()));
  TROUPE_TRY(tensor y, tensor::make(call.memory, spec));
  TROUPE_CHECK(call.ops.embedding(tokens, call.parameters[wte].value, call.parameters[wpe].value, y));
  keep.put(input, tokens);
  return y;
}

result<tensor> gpt_embedding::backward_input(layer_call&, const tensor& dy, kept_tensors& keep) {
  keep.put(d_output, dy);
  return tensor();  // tokens have no gradient
}

status gpt_embedding::backward_weight(layer_call& call, kept_tensors& keep) {
  const auto tokens = keep.take(input), dy = keep.take(d_output);
  return call.ops.embedding_backward(dy, tokens, call.parameters[wte].gradient, call.parameters[wpe].gradient);
}

}  // namespace troupe
