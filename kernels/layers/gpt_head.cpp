#include "kernels/layers/gpt_head.hpp"

#include <fmt/format.h>

#include "kernels/layers/gpt_embedding.hpp"
#include "kernels/layers/inner_layer_norm.hpp"
#include "kernels/layers/multiply.hpp"

namespace troupe {

namespace {

enum parameter : std::size_t { ln_f = 0, table = 2 };
enum slot : std::size_t { norm, d_logits = norm + inner_layer_norm::slots };

constexpr inner_layer_norm final_norm{ln_f, norm};

}  // namespace

std::vector<parameter_spec> gpt_head::parameters() const {
  auto output_table = token_table(config_);
  if (!config_.tied) output_table.name = "lm_head.weight";
  return {{"ln_f.weight", {config_.hidden}, {initial_value::kind::constant, 1}},
          {"ln_f.bias", {config_.hidden}, {}},
          std::move(output_table)};
}

result<tensor_spec> gpt_head::output(const tensor_spec& in) const {
  if (in.type != dtype::f32 || in.dims.rank() != 3 || in.dims.elements() == 0 || in.dims[1] > config_.seq_len ||
      in.dims[2] != config_.hidden)
    return invalid(fmt::format("head: the input is {}, not f32 [B, S, {}] with S up to model.seq_len = {}",
                               to_string(in), config_.hidden, config_.seq_len));
  return tensor_spec{dtype::f32, {1}};
}

double gpt_head::forward_flops(const tensor_spec& in) const {
  return 2.0 * static_cast<double>(in.dims.elements()) * static_cast<double>(config_.vocab);
}

std::size_t gpt_head::kept_bytes(const tensor_spec& in) const {
  const auto logits = static_cast<std::size_t>(in.dims.rows() * config_.vocab) * sizeof(float);
  return inner_layer_norm::kept_bytes(in.dims) + logits;
}

result<tensor> gpt_head::forward(layer_call& call, const tensor& x, kept_tensors& keep) {
  TROUPE_TRY(const auto spec, output(x.spec()));
  const tensor_spec target_spec{dtype::i32, {x.dims()[0], x.dims()[1]}};
  if (!call.target || call.target.spec() != target_spec)
    return invalid(fmt::format("head: the target is {}, not {}",
                               call.target ? to_string(call.target.spec()) : "missing", to_string(target_spec)));
  TROUPE_TRY(tensor logits, tensor::make(call.memory, {dtype::f32, {x.dims().rows(), config_.vocab}}));
  TROUPE_TRY(const tensor normed, final_norm.forward(call, x, keep));
  TROUPE_CHECK(multiply(call.ops, normed, transposed(call.parameters[table].value), logits));
  TROUPE_TRY(tensor loss, tensor::make(call.memory, spec));
  const auto targets = call.target.reshaped({x.dims().rows()});
  TROUPE_CHECK(call.ops.cross_entropy(logits, targets, call.loss_scale, loss));
  keep.put(d_logits, std::move(logits));
  return loss;
}

result<tensor> gpt_head::backward_input(layer_call& call, const tensor&, kept_tensors& keep) {
  TROUPE_TRY(const tensor d_normed, tensor::make(call.memory, keep.at(norm).spec()));
  TROUPE_CHECK(multiply(call.ops, keep.at(d_logits), call.parameters[table].value, d_normed));
  return final_norm.backward_input(call, d_normed, tensor(), keep);
}

status gpt_head::backward_weight(layer_call& call, kept_tensors& keep) {
  TROUPE_TRY(const tensor normed, final_norm.backward_weight(call, keep));
  return multiply(call.ops, transposed(keep.take(d_logits)), normed, call.parameters[table].gradient, 1);
}

}  // namespace troupe
