#include "kernels/layers/gpt_block.hpp"

#include <fmt/format.h>

#include <cmath>

#include "kernels/layers/gpt_activation.hpp"
#include "kernels/layers/inner_layer_norm.hpp"
#include "kernels/layers/linear.hpp"
#include "kernels/layers/multiply.hpp"

namespace troupe {

namespace {

// Each weight is followed by its bias.
enum parameter : std::size_t { ln_1 = 0, c_attn = 2, attn_c_proj = 4, ln_2 = 6, c_fc = 8, mlp_c_proj = 10 };

enum slot : std::size_t {
  norm_1,
  norm_2 = norm_1 + inner_layer_norm::slots,
  qkv = norm_2 + inner_layer_norm::slots,
  attended,
  log_sum,
  expanded,  // c_fc's output
  d_qkv,
  d_middle,
  d_expanded,
  d_output,
};

constexpr inner_layer_norm first_norm{ln_1, norm_1}, second_norm{ln_2, norm_2};

// f32 [..., columns], with the rows of `like`.
result<tensor> make_rows(layer_call& call, const shape& like, std::int64_t columns) {
  return tensor::make(call.memory, {dtype::f32, like.with_last(columns)});
}

// x·weight + bias, the weight cut by columns.
result<tensor> project(layer_call& call, const tensor& x, std::size_t weight) {
  TROUPE_TRY(tensor y, make_rows(call, x.dims(), call.parameters[weight].value.dims().back()));
  TROUPE_CHECK(linear_forward(call.ops, x, call.parameters[weight], call.parameters[weight + 1], y));
  return y;
}

// add_to + x·weight + bias, the weight cut by rows: the end of a parallel region.
result<tensor> project_and_add(layer_call& call, const tensor_parallel& tp, const tensor& x, std::size_t weight,
                               const tensor& add_to) {
  TROUPE_TRY(tensor partial, make_rows(call, x.dims(), add_to.dims().back()));
  TROUPE_CHECK(multiply(call.ops, x, call.parameters[weight].value, partial));
  TROUPE_TRY(tensor y, sum_of_shards(call, tp, std::move(partial), add_to.dims()));
  TROUPE_CHECK(call.ops.add_bias(y, call.parameters[weight + 1].value));
  TROUPE_CHECK(call.ops.add(y, add_to, y));
  return y;
}

result<tensor> project_backward(layer_call& call, const tensor& dy, std::size_t weight) {
  TROUPE_TRY(tensor dx, make_rows(call, dy.dims(), call.parameters[weight].value.dims()[0]));
  TROUPE_CHECK(linear_backward_input(call.ops, dy, call.parameters[weight], dx));
  return dx;
}

status project_backward_weight(layer_call& call, const tensor& x, const tensor& dy, std::size_t weight) {
  return linear_backward_weight(call.ops, x, dy, call.parameters[weight], call.parameters[weight + 1]);
}

// Of `project_and_add`: `dy` has every row, its bias saw this shard's only.
status project_and_add_backward_weight(layer_call& call, const tensor_parallel& tp, const tensor& x, const tensor& dy,
                                       std::size_t weight) {
  TROUPE_CHECK(multiply(call.ops, transposed(x), dy, call.parameters[weight].gradient, 1));
  return call.ops.bias_backward(own_rows(tp, dy), call.parameters[weight + 1].gradient);
}

}  // namespace

gpt_block::gpt_block(const gpt_config& config, std::int64_t index)
    : config_(config), name_(fmt::format("h.{}", index)) {}

std::vector<parameter_spec> gpt_block::parameters() const {
  using kind = initial_value::kind;
  const auto h = config_.hidden;
  const initial_value zero{}, one{kind::constant, 1}, normal{kind::normal, 0.02F};
  // Each block adds two branches to the residual stream: its deviation stays that of one, whatever the depth.
  const initial_value residual{kind::normal, 0.02F / std::sqrt(2 * static_cast<float>(config_.layers))};
  const auto whole = [&](const char* name, shape dims, initial_value init) {
    return replicated(config_.shards, {name_ + name, dims, init});
  };
  const auto columns = [&](const char* name, shape dims, initial_value init, std::int64_t blocks) {
    return column_slice(config_.shards, {name_ + name, dims, init, dims.rank() == 2}, blocks);
  };
  const auto rows = [&](const char* name, shape dims, initial_value init) {
    return row_slice(config_.shards, {name_ + name, dims, init, true});
  };
  return {whole(".ln_1.weight", {h}, one),
          whole(".ln_1.bias", {h}, zero),
          columns(".attn.c_attn.weight", {h, 3 * h}, normal, 3),
          columns(".attn.c_attn.bias", {3 * h}, zero, 3),
          rows(".attn.c_proj.weight", {h, h}, residual),
          whole(".attn.c_proj.bias", {h}, zero),
          whole(".ln_2.weight", {h}, one),
          whole(".ln_2.bias", {h}, zero),
          columns(".mlp.c_fc.weight", {h, 4 * h}, normal, 1),
          columns(".mlp.c_fc.bias", {4 * h}, zero, 1),
          rows(".mlp.c_proj.weight", {4 * h, h}, residual),
          whole(".mlp.c_proj.bias", {h}, zero)};
}

result<tensor_spec> gpt_block::output(const tensor_spec& in) const {
  TROUPE_CHECK(check_activation(config_, name_, in));
  return in;
}

double gpt_block::forward_flops(const tensor_spec& in) const {
  const auto whole = whole_activation(config_, in.dims);
  const auto tokens = static_cast<double>(whole.rows()), h = static_cast<double>(config_.hidden);
  const double weights = 3 * h * h + h * h + 4 * h * h + 4 * h * h;
  const double average_context = (static_cast<double>(whole[1]) + 1) / 2;
  return 2 * tokens * (weights + 2 * average_context * h) / config_.shards.size;  // 2: scores, then the weighted sum
}

std::size_t gpt_block::kept_bytes(const tensor_spec& in) const {
  const auto tokens = static_cast<std::size_t>(whole_activation(config_, in.dims).rows());
  const std::size_t of_attention = config_.recompute_attention ? 0 : own_hidden() + own_heads();
  const std::size_t qkv_and_expanded = (3 + 4) * own_hidden();
  const std::size_t middle = in.bytes();
  return middle + tokens * (qkv_and_expanded + of_attention) * sizeof(float) +
         2 * inner_layer_norm::kept_bytes(in.dims);
}

// Keeps its result and the sums of its softmaxes.
result<tensor> gpt_block::core_attention(layer_call& call, const tensor& heads_in, kept_tensors& keep) const {
  const auto& dims = heads_in.dims();
  TROUPE_TRY(tensor heads_out, make_rows(call, dims, own_hidden()));
  TROUPE_TRY(tensor sums, tensor::make(call.memory, {dtype::f32, {dims[0], own_heads(), dims[1]}}));
  TROUPE_CHECK(call.ops.attention(heads_in, own_heads(), heads_out, sums));
  keep.put(attended, heads_out);
  keep.put(log_sum, std::move(sums));
  return heads_out;
}

result<tensor> gpt_block::attend(layer_call& call, const tensor& x, kept_tensors& keep) const {
  const auto& tp = config_.shards;
  tensor heads_in;
  {
    TROUPE_TRY(const tensor normed, first_norm.forward(call, x, keep));
    TROUPE_TRY(const tensor rows, all_rows(call, tp, normed, whole_activation(config_, x.dims())));
    TROUPE_TRY(heads_in, project(call, rows, c_attn));
  }
  TROUPE_TRY(const tensor heads_out, core_attention(call, heads_in, keep));
  keep.put(qkv, std::move(heads_in));
  if (config_.recompute_attention) {
    keep.take(attended);
    keep.take(log_sum);
  }
  return project_and_add(call, tp, heads_out, attn_c_proj, x);
}

result<tensor> gpt_block::feed_forward(layer_call& call, const tensor& middle, kept_tensors& keep) const {
  const auto& tp = config_.shards;
  tensor wide;
  {
    TROUPE_TRY(const tensor normed, second_norm.forward(call, middle, keep));
    TROUPE_TRY(const tensor rows, all_rows(call, tp, normed, whole_activation(config_, middle.dims())));
    TROUPE_TRY(wide, project(call, rows, c_fc));
  }
  TROUPE_TRY(tensor activated, tensor::make(call.memory, wide.spec()));
  TROUPE_CHECK(call.ops.gelu(wide, activated));
  keep.put(expanded, std::move(wide));
  return project_and_add(call, tp, activated, mlp_c_proj, middle);
}

result<tensor> gpt_block::forward(layer_call& call, const tensor& x, kept_tensors& keep) {
  if (auto fits = output(x.spec()); !fits) return std::move(fits).error();
  TROUPE_TRY(const tensor middle, attend(call, x, keep));
  return feed_forward(call, middle, keep);
}

result<tensor> gpt_block::feed_forward_backward(layer_call& call, const tensor& dy, kept_tensors& keep) const {
  const auto& tp = config_.shards;
  TROUPE_TRY(tensor dy_rows, all_rows(call, tp, dy, whole_activation(config_, dy.dims())));
  TROUPE_TRY(tensor d_wide, project_backward(call, dy_rows, mlp_c_proj));
  TROUPE_CHECK(call.ops.gelu_backward(keep.at(expanded), d_wide, d_wide));
  TROUPE_TRY(tensor partial, project_backward(call, d_wide, c_fc));
  TROUPE_TRY(const tensor d_normed, sum_of_shards(call, tp, std::move(partial), dy.dims()));
  keep.put(d_expanded, std::move(d_wide));
  keep.put(d_output, std::move(dy_rows));
  return second_norm.backward_input(call, d_normed, dy, keep);
}

result<tensor> gpt_block::attend_backward(layer_call& call, const tensor& dm, kept_tensors& keep) const {
  const auto& tp = config_.shards;
  if (config_.recompute_attention) {
    if (auto again = core_attention(call, keep.at(qkv), keep); !again) return again;
  }
  TROUPE_TRY(tensor dm_rows, all_rows(call, tp, dm, whole_activation(config_, dm.dims())));
  TROUPE_TRY(const tensor d_attended, project_backward(call, dm_rows, attn_c_proj));
  TROUPE_TRY(tensor d_heads, tensor::make(call.memory, keep.at(qkv).spec()));
  TROUPE_CHECK(call.ops.attention_backward(d_attended, keep.take(qkv), keep.at(attended), keep.take(log_sum),
                                           own_heads(), d_heads));
  TROUPE_TRY(tensor partial, project_backward(call, d_heads, c_attn));
  TROUPE_TRY(const tensor d_normed, sum_of_shards(call, tp, std::move(partial), dm.dims()));
  keep.put(d_qkv, std::move(d_heads));
  keep.put(d_middle, std::move(dm_rows));
  return first_norm.backward_input(call, d_normed, dm, keep);
}

result<tensor> gpt_block::backward_input(layer_call& call, const tensor& dy, kept_tensors& keep) {
  TROUPE_TRY(const tensor dm, feed_forward_backward(call, dy, keep));
  return attend_backward(call, dm, keep);
}

status gpt_block::backward_weight(layer_call& call, kept_tensors& keep) {
  const auto& tp = config_.shards;
  {
    const tensor activated = keep.take(expanded);  // our own: no one else holds it
    TROUPE_CHECK(call.ops.gelu(activated, activated));
    TROUPE_CHECK(project_and_add_backward_weight(call, tp, activated, keep.take(d_output), mlp_c_proj));
  }
  const auto norm_and_projection = [&](const inner_layer_norm& norm, std::size_t d_slot, std::size_t weight) -> status {
    TROUPE_TRY(const tensor normed, norm.backward_weight(call, keep));
    TROUPE_TRY(const tensor rows, all_rows(call, tp, normed, whole_activation(config_, normed.dims())));
    return project_backward_weight(call, rows, keep.take(d_slot), weight);
  };
  TROUPE_CHECK(norm_and_projection(second_norm, d_expanded, c_fc));
  TROUPE_CHECK(project_and_add_backward_weight(call, tp, keep.take(attended), keep.take(d_middle), attn_c_proj));
  return norm_and_projection(first_norm, d_qkv, c_attn);
}

}  // namespace troupe
