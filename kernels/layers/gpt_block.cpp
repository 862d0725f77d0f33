#include "kernels/layers/gpt_block.hpp"

#include <fmt/format.h>

#include <cmath>

#include "kernels/layers/inner_layer_norm.hpp"
#include "kernels/layers/linear.hpp"

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

result<tensor> make_wide(layer_call& call, const tensor& x, std::int64_t times) {
  return tensor::make(call.memory, {dtype::f32, {x.dims()[0], x.dims()[1], times * x.dims()[2]}});
}

// y = linear(x), where y has `times` the columns of `like`.
result<tensor> project(layer_call& call, const tensor& x, std::size_t weight, const tensor& like, std::int64_t times) {
  TROUPE_TRY(tensor y, make_wide(call, like, times));
  TROUPE_CHECK(linear_forward(call.ops, x, call.parameters[weight], call.parameters[weight + 1], y));
  return y;
}

result<tensor> project_backward(layer_call& call, const tensor& dy, std::size_t weight, const tensor& like,
                                std::int64_t times) {
  TROUPE_TRY(tensor dx, make_wide(call, like, times));
  TROUPE_CHECK(linear_backward_input(call.ops, dy, call.parameters[weight], dx));
  return dx;
}

status project_backward_weight(layer_call& call, const tensor& x, const tensor& dy, std::size_t weight) {
  return linear_backward_weight(call.ops, x, dy, call.parameters[weight], call.parameters[weight + 1]);
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
  return {{name_ + ".ln_1.weight", {h}, one},
          {name_ + ".ln_1.bias", {h}, zero},
          {name_ + ".attn.c_attn.weight", {h, 3 * h}, normal, true},
          {name_ + ".attn.c_attn.bias", {3 * h}, zero},
          {name_ + ".attn.c_proj.weight", {h, h}, residual, true},
          {name_ + ".attn.c_proj.bias", {h}, zero},
          {name_ + ".ln_2.weight", {h}, one},
          {name_ + ".ln_2.bias", {h}, zero},
          {name_ + ".mlp.c_fc.weight", {h, 4 * h}, normal, true},
          {name_ + ".mlp.c_fc.bias", {4 * h}, zero},
          {name_ + ".mlp.c_proj.weight", {4 * h, h}, residual, true},
          {name_ + ".mlp.c_proj.bias", {h}, zero}};
}

result<tensor_spec> gpt_block::output(const tensor_spec& in) const {
  if (in.type != dtype::f32 || in.dims.rank() != 3 || in.dims.elements() == 0 || in.dims[1] > config_.seq_len ||
      in.dims[2] != config_.hidden)
    return invalid(fmt::format("{}: the input is {}, not f32 [B, S, {}] with S up to model.seq_len = {}", name_,
                               to_string(in), config_.hidden, config_.seq_len));
  return in;
}

double gpt_block::forward_flops(const tensor_spec& in) const {
  const auto tokens = static_cast<double>(in.dims.rows()), h = static_cast<double>(config_.hidden);
  const double weights = 3 * h * h + h * h + 4 * h * h + 4 * h * h;
  const double average_context = (static_cast<double>(in.dims[1]) + 1) / 2;
  return 2 * tokens * (weights + 2 * average_context * h);  // 2: scores, then the weighted sum
}

std::size_t gpt_block::kept_bytes(const tensor_spec& in) const {
  const std::size_t middle_qkv_attended_expanded = (1 + 3 + 1 + 4) * in.bytes();
  const auto log_sums = static_cast<std::size_t>(in.dims.rows() * config_.heads) * sizeof(float);
  return middle_qkv_attended_expanded + 2 * inner_layer_norm::kept_bytes(in.dims) + log_sums;
}

result<tensor> gpt_block::attend(layer_call& call, const tensor& x, kept_tensors& keep) const {
  TROUPE_TRY(tensor normed, first_norm.forward(call, x, keep));
  TROUPE_TRY(tensor heads_in, project(call, normed, c_attn, x, 3));
  normed = tensor();  // free for what follows
  TROUPE_TRY(tensor heads_out, make_wide(call, x, 1));
  TROUPE_TRY(tensor sums, tensor::make(call.memory, {dtype::f32, {x.dims()[0], config_.heads, x.dims()[1]}}));
  TROUPE_CHECK(call.ops.attention(heads_in, config_.heads, heads_out, sums));
  TROUPE_TRY(tensor middle, project(call, heads_out, attn_c_proj, x, 1));
  TROUPE_CHECK(call.ops.add(middle, x, middle));
  keep.put(qkv, std::move(heads_in));
  keep.put(attended, std::move(heads_out));
  keep.put(log_sum, std::move(sums));
  return middle;
}

result<tensor> gpt_block::feed_forward(layer_call& call, const tensor& middle, kept_tensors& keep) const {
  TROUPE_TRY(tensor normed, second_norm.forward(call, middle, keep));
  TROUPE_TRY(tensor wide, project(call, normed, c_fc, middle, 4));
  normed = tensor();
  TROUPE_TRY(tensor activated, make_wide(call, middle, 4));
  TROUPE_CHECK(call.ops.gelu(wide, activated));
  keep.put(expanded, std::move(wide));
  TROUPE_TRY(tensor y, project(call, activated, mlp_c_proj, middle, 1));
  TROUPE_CHECK(call.ops.add(y, middle, y));
  return y;
}

result<tensor> gpt_block::forward(layer_call& call, const tensor& x, kept_tensors& keep) {
  if (auto fits = output(x.spec()); !fits) return std::move(fits).error();
  TROUPE_TRY(const tensor middle, attend(call, x, keep));
  return feed_forward(call, middle, keep);
}

result<tensor> gpt_block::feed_forward_backward(layer_call& call, const tensor& dy, kept_tensors& keep) const {
  TROUPE_TRY(tensor d_wide, project_backward(call, dy, mlp_c_proj, dy, 4));
  TROUPE_CHECK(call.ops.gelu_backward(keep.at(expanded), d_wide, d_wide));
  TROUPE_TRY(const tensor d_normed, project_backward(call, d_wide, c_fc, dy, 1));
  keep.put(d_expanded, std::move(d_wide));
  keep.put(d_output, dy);
  return second_norm.backward_input(call, d_normed, dy, keep);
}

result<tensor> gpt_block::attend_backward(layer_call& call, const tensor& dm, kept_tensors& keep) const {
  TROUPE_TRY(const tensor d_attended, project_backward(call, dm, attn_c_proj, dm, 1));
  TROUPE_TRY(tensor d_heads, make_wide(call, dm, 3));
  TROUPE_CHECK(call.ops.attention_backward(d_attended, keep.take(qkv), keep.at(attended), keep.take(log_sum),
                                           config_.heads, d_heads));
  TROUPE_TRY(const tensor d_normed, project_backward(call, d_heads, c_attn, dm, 1));
  keep.put(d_qkv, std::move(d_heads));
  keep.put(d_middle, dm);
  return first_norm.backward_input(call, d_normed, dm, keep);
}

result<tensor> gpt_block::backward_input(layer_call& call, const tensor& dy, kept_tensors& keep) {
  TROUPE_TRY(const tensor dm, feed_forward_backward(call, dy, keep));
  return attend_backward(call, dm, keep);
}

status gpt_block::backward_weight(layer_call& call, kept_tensors& keep) {
  {
    const tensor activated = keep.take(expanded);  // our own: no one else holds it
    TROUPE_CHECK(call.ops.gelu(activated, activated));
    TROUPE_CHECK(project_backward_weight(call, activated, keep.take(d_output), mlp_c_proj));
  }
  {
    TROUPE_TRY(const tensor normed, second_norm.backward_weight(call, keep));
    TROUPE_CHECK(project_backward_weight(call, normed, keep.take(d_expanded), c_fc));
  }
  TROUPE_CHECK(project_backward_weight(call, keep.take(attended), keep.take(d_middle), attn_c_proj));
  TROUPE_TRY(const tensor normed, first_norm.backward_weight(call, keep));
  return project_backward_weight(call, normed, keep.take(d_qkv), c_attn);
}

}  // namespace troupe
