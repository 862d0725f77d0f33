#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "kernels/core/element_slice.hpp"
#include "kernels/core/tensor.hpp"

namespace troupe {

/// C = alpha·op(A)·op(B) + beta·C over row-major matrices, op being the transpose where asked.
///   a   f32 [m, k] (or [k, m] if `transpose_a`), row stride `lda`
///   b   f32 [k, n] (or [n, k] if `transpose_b`), row stride `ldb`
///   c   f32 [m, n], row stride `ldc`; with beta = 0 it is not read
struct gemm_args {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  float alpha = 1.0F;
  const float* a = nullptr;
  std::int64_t lda = 0;
  const float* b = nullptr;
  std::int64_t ldb = 0;
  float beta = 0.0F;
  float* c = nullptr;
  std::int64_t ldc = 0;
};

/// AdamW's settings for one update; `step` counts from 1 for the bias correction.
struct adamw_args {
  float learning_rate = 0, beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F, weight_decay = 0;
  float gradient_scale = 1.0F;  ///< from global-norm clipping; multiplies the gradient first
  std::int64_t step = 1;
};

/// The classes that one tensor shard holds of a vocabulary of `total`: `count` of them from `first` on. Tables may have
/// more rows, and logits more columns, than `count`: those are padding.
struct vocabulary_slice {
  std::int64_t first = 0, count = 0, total = 0;
};

/// The operations of one device, each enqueued in stream order: the CPU's run before they return, CUDA's later, and a
/// fault of those surfaces at the next `synchronise`. One thread uses a backend at a time; a shard owns its own.
/// Tensors must live on `where()`. Every operation gives the same bits for the same inputs, always.
/// Errors: `invalid_argument` (shapes disagree; says which), `device_lost`, `out_of_memory`.
class backend {
public:
  virtual ~backend() = default;
  virtual device where() const noexcept = 0;
  /// Where this backend's tensors come from.
  virtual std::shared_ptr<memory_source> memory() const = 0;
  /// Host memory that copies to and from this device are fastest with: where tensors wait that come from elsewhere.
  virtual std::shared_ptr<memory_source> staging_memory() const {
    return where().kind == device_kind::cpu ? memory() : host_memory();
  }

  virtual status gemm(const gemm_args& args) = 0;

  /// y[r, :] += bias, for each row r. y f32 [..., n], bias f32 [n].
  virtual status add_bias(const tensor& y, const tensor& bias) = 0;
  /// dbias += column sums of dy, rows in ascending order. dy f32 [..., n], dbias f32 [n].
  virtual status bias_backward(const tensor& dy, const tensor& dbias) = 0;

  /// y = (x − mean)·rstd·gamma + beta per row. x, y f32 [..., n]; gamma, beta f32 [n]; mean, rstd f32 [rows], kept for
  /// the backward. `y` may be `x`. Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450.
  virtual status layer_norm(const tensor& x, const tensor& gamma, const tensor& beta, float epsilon, const tensor& y,
                            const tensor& mean, const tensor& rstd) = 0;
  /// dx of `layer_norm`; `dx` may be `dy`. If `add_to` is given, dx = that + the gradient (the residual branch).
  virtual status layer_norm_backward_input(const tensor& dy, const tensor& x, const tensor& gamma, const tensor& mean,
                                           const tensor& rstd, const tensor& dx, const tensor& add_to) = 0;
  /// dgamma += …, dbeta += …, rows in ascending order.
  virtual status layer_norm_backward_weight(const tensor& dy, const tensor& x, const tensor& mean, const tensor& rstd,
                                            const tensor& dgamma, const tensor& dbeta) = 0;

  /// y = 0.5·x·(1 + tanh(√(2/π)(x + 0.044715·x³))), GPT-2's "gelu_new". `y` may be `x`. Source: arXiv:1606.08415.
  virtual status gelu(const tensor& x, const tensor& y) = 0;
  /// dx = dy·gelu'(x). `dx` may be `dy`.
  virtual status gelu_backward(const tensor& x, const tensor& dy, const tensor& dx) = 0;

  /// y = a + b elementwise; `y` may be either.
  virtual status add(const tensor& a, const tensor& b, const tensor& y) = 0;

  /// Causal multi-head attention. qkv f32 [B, S, 3·H] (q, k, v side by side, heads contiguous inside each), out f32
  /// [B, S, H], log_sum f32 [B, heads, S] kept for the backward. Works block by block: scratch does not grow with heads
  /// or batch. Scale 1/√(H/heads). Sources: arXiv:1706.03762, blocks as in arXiv:2205.14135.
  virtual status attention(const tensor& qkv, std::int64_t heads, const tensor& out, const tensor& log_sum) = 0;
  /// dqkv of `attention`, overwritten.
  virtual status attention_backward(const tensor& dout, const tensor& qkv, const tensor& out, const tensor& log_sum,
                                    std::int64_t heads, const tensor& dqkv) = 0;

  /// y[b, s, :] = token_table[tokens[b, s], :] + position_table[s, :]. tokens i32 [B, S], tables f32 [V, H] and [S', H]
  /// with S' ≥ S. A token outside [0, V) is `invalid_argument`.
  virtual status embedding(const tensor& tokens, const tensor& token_table, const tensor& position_table,
                           const tensor& y) = 0;
  /// Adds to both tables' gradients, positions in ascending order.
  virtual status embedding_backward(const tensor& dy, const tensor& tokens, const tensor& d_token_table,
                                    const tensor& d_position_table) = 0;
  /// One shard's summand of `embedding`: rows of tokens outside `slice` are zero. `position_table` may be empty: one
  /// shard alone adds the positions. A token outside [0, slice.total) is `invalid_argument`.
  virtual status embedding_slice(const tensor& tokens, const vocabulary_slice& slice, const tensor& token_table,
                                 const tensor& position_table, const tensor& y) = 0;
  /// Adds to the gradients of the slice of tokens and of all positions.
  virtual status embedding_slice_backward(const tensor& dy, const tensor& tokens, const vocabulary_slice& slice,
                                          const tensor& d_token_table, const tensor& d_position_table) = 0;

  /// Fused softmax cross-entropy. logits f32 [rows, V], targets i32 [rows]; `loss` f32 [1] becomes `scale` times the
  /// sum of −log softmax(logits)[target]; logits are overwritten by their gradient, times `scale` too.
  virtual status cross_entropy(const tensor& logits, const tensor& targets, float scale, const tensor& loss) = 0;
  /// Softmax cross-entropy over a vocabulary that lies on several shards, in three parts with a reduction behind each
  /// of the first two; no shard sees another's logits. logits f32 [rows, at least slice.count].
  /// First: peaks f32 [rows] = the largest of this shard's logits (then the maximum over shards).
  virtual status cross_entropy_peaks(const tensor& logits, const vocabulary_slice& slice, const tensor& peaks) = 0;
  /// Second: logits become exp(logit − peak), padding 0; sums f32 [2, rows] = their sum, then logit − peak of the
  /// target where this shard has it, else 0 (then the sum over shards).
  virtual status cross_entropy_sums(const tensor& logits, const vocabulary_slice& slice, const tensor& targets,
                                    const tensor& peaks, const tensor& sums) = 0;
  /// Third: logits become their gradient, `loss` the whole loss, both times `scale`.
  virtual status cross_entropy_gradient(const tensor& logits, const vocabulary_slice& slice, const tensor& targets,
                                        const tensor& sums, float scale, const tensor& loss) = 0;
  /// loss f32 [1] = scale·Σ(y − target)²; y is overwritten by its gradient 2·scale·(y − target).
  virtual status squared_error(const tensor& y, const tensor& target, float scale, const tensor& loss) = 0;

  /// One decoupled-weight-decay Adam update in place. Source: arXiv:1711.05101.
  virtual status adamw(const adamw_args& args, const tensor& parameter, const tensor& gradient, const tensor& moment1,
                       const tensor& moment2) = 0;
  /// The sum of squares as f64, in one canonical order that depends on the element count only. Waits for the device.
  virtual result<double> squared_norm(const tensor& x) = 0;

  virtual status fill(const tensor& x, float value) = 0;
  /// Normal numbers of mean 0: element i of the whole tensor is a function of (seed, name, i) alone; `x` is the `part`
  /// of it. See kernels/ops/philox.hpp.
  virtual status fill_normal(const tensor& x, std::uint64_t seed, std::string_view name, float deviation,
                             const element_slice& part = {}) = 0;
  /// Uniform numbers in [−bound, bound), keyed the same way.
  virtual status fill_uniform(const tensor& x, std::uint64_t seed, std::string_view name, float bound,
                              const element_slice& part = {}) = 0;
  /// Copies equal-sized tensors; either side may be host memory, the other on this device. The host's bytes may be
  /// changed or read after the next `synchronise`, which also keeps them from being reused before.
  virtual status copy(const tensor& from, const tensor& to) = 0;
  /// Waits until everything enqueued is done and reports the first fault. Nothing to wait for on the CPU.
  virtual status synchronise() = 0;
};

/// The CPU's backend: one compute thread, oneDNN for GEMM. Its tensors come from `memory`.
result<std::unique_ptr<backend>> make_cpu_backend(std::shared_ptr<memory_source> memory = host_memory());
/// A GPU's backend, where it was built in. Errors: `invalid_argument` with the driver's text, `out_of_memory`,
/// `device_lost`.
result<std::unique_ptr<backend>> make_cuda_backend(device where);
/// The backend of `where`; CUDA only where it was built in and the device answers.
result<std::unique_ptr<backend>> make_backend(device where);

}  // namespace troupe
