#include "kernels/layers/gpt_head.hpp"

#include <fmt/format.h>

#include "kernels/layers/gpt_activation.hpp"
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
  return {replicated(config_.shards, {"ln_f.weight", {config_.hidden}, {initial_value::kind::constant, 1}}),
          replicated(config_.shards, {"ln_f.bias", {config_.hidden}, {}}), std::move(output_table)};
}

result<tensor_spec> gpt_head::output(const tensor_spec& in) const {
  TROUPE_CHECK(check_activation(config_, "head", in));
  return tensor_spec{dtype::f32, {1}};
}

double gpt_head::forward_flops(const tensor_spec& in) const {
  const auto elements = static_cast<double>(whole_activation(config_, in.dims).elements());
  return 2.0 * elements * static_cast<double>(config_.vocab) / config_.shards.size;
}

std::size_t gpt_head::kept_bytes(const tensor_spec& in) const {
  const auto rows = whole_activation(config_, in.dims).rows();
  const auto logits = static_cast<std::size_t>(rows * token_table(config_).dims[0]) * sizeof(float);
  return inner_layer_norm::kept_bytes(in.dims) + logits;
}

// Logits [rows, this shard's classes] become their gradient; returns the loss.
result<tensor> gpt_head::loss_of(layer_call& call, const tensor& logits) const {
  const auto rows = logits.dims().rows();
  const auto targets = call.target.reshaped({rows});
  TROUPE_TRY(tensor loss, tensor::make(call.memory, {dtype::f32, {1}}));
  if (config_.shards.alone()) {
    TROUPE_CHECK(call.ops.cross_entropy(logits, targets, call.loss_scale, loss));
    return loss;
  }
  TROUPE_TRY(auto* group, group_of(call, config_.shards));
  const auto classes = classes_of(config_.shards, config_.vocab);
  TROUPE_TRY(const tensor peaks, tensor::make(call.memory, {dtype::f32, {rows}}));
  TROUPE_TRY(const tensor sums, tensor::make(call.memory, {dtype::f32, {2, rows}}));
  TROUPE_CHECK(call.ops.cross_entropy_peaks(logits, classes, peaks));
  TROUPE_CHECK(group->all_reduce(peaks, reduction::max));
  TROUPE_CHECK(call.ops.cross_entropy_sums(logits, classes, targets, peaks, sums));
  TROUPE_CHECK(group->all_reduce(sums));
  TROUPE_CHECK(call.ops.cross_entropy_gradient(logits, classes, targets, sums, call.loss_scale, loss));
  return loss;
}

result<tensor> gpt_head::forward(layer_call& call, const tensor& x, kept_tensors& keep) {
  if (auto fits = output(x.spec()); !fits) return std::move(fits).error();
  const auto whole = whole_activation(config_, x.dims());
  const tensor_spec target_spec{dtype::i32, {whole[0], whole[1]}};
  if (!call.target || call.target.spec() != target_spec)
    return invalid(fmt::format("head: the target is {}, not {}",
                               call.target ? to_string(call.target.spec()) : "missing", to_string(target_spec)));
  const auto& weights = call.parameters[table].value;
  TROUPE_TRY(tensor logits, tensor::make(call.memory, {dtype::f32, {whole.rows(), weights.dims()[0]}}));
  {
    TROUPE_TRY(const tensor normed, final_norm.forward(call, x, keep));
    TROUPE_TRY(const tensor rows, all_rows(call, config_.shards, normed, whole));
    TROUPE_CHECK(multiply(call.ops, rows, transposed(weights), logits));
  }
  TROUPE_TRY(tensor loss, loss_of(call, logits));
  keep.put(d_logits, std::move(logits));
  return loss;
}

result<tensor> gpt_head::backward_input(layer_call& call, const tensor&, kept_tensors& keep) {
  const auto local = keep.at(norm).dims();
  TROUPE_TRY(tensor partial, tensor::make(call.memory, {dtype::f32, whole_activation(config_, local)}));
  TROUPE_CHECK(multiply(call.ops, keep.at(d_logits), call.parameters[table].value, partial));
  TROUPE_TRY(const tensor d_normed, sum_of_shards(call, config_.shards, std::move(partial), local));
  return final_norm.backward_input(call, d_normed, tensor(), keep);
}

status gpt_head::backward_weight(layer_call& call, kept_tensors& keep) {
  TROUPE_TRY(const tensor normed, final_norm.backward_weight(call, keep));
  TROUPE_TRY(const tensor rows, all_rows(call, config_.shards, normed, whole_activation(config_, normed.dims())));
  return multiply(call.ops, transposed(keep.take(d_logits)), rows, call.parameters[table].gradient, 1);
}

}  // namespace troupe
