#pragma once

#include <memory>
#include <utility>

#include "kernels/ops/backend.hpp"
#include "kernels/ops/scratch_memory.hpp"

namespace troupe {

/// The CPU's backend: each operation checks its operands (kernels/ops/checks.hpp), then runs before it returns.
///
/// Bits: no operation's result depends on an address, a thread or what ran before; sums have a fixed order. The same
/// binary on the same kind of CPU repeats its bits always. Across kinds it need not: oneDNN and the compiler's clones
/// (see vectorised.hpp) use the widest vectors and fused multiply-adds where the CPU has them.
class cpu_backend final : public backend {
public:
  explicit cpu_backend(std::shared_ptr<memory_source> memory) : memory_(std::move(memory)), scratch_(memory_) {}

  device where() const noexcept override { return memory_->where(); }
  std::shared_ptr<memory_source> memory() const override { return memory_; }

  status gemm(const gemm_args& args) override;
  status add_bias(const tensor& y, const tensor& bias) override;
  status bias_backward(const tensor& dy, const tensor& dbias) override;
  status layer_norm(const tensor& x, const tensor& gamma, const tensor& beta, float epsilon, const tensor& y,
                    const tensor& mean, const tensor& rstd) override;
  status layer_norm_backward_input(const tensor& dy, const tensor& x, const tensor& gamma, const tensor& mean,
                                   const tensor& rstd, const tensor& dx, const tensor& add_to) override;
  status layer_norm_backward_weight(const tensor& dy, const tensor& x, const tensor& mean, const tensor& rstd,
                                    const tensor& dgamma, const tensor& dbeta) override;
  status gelu(const tensor& x, const tensor& y) override;
  status gelu_backward(const tensor& x, const tensor& dy, const tensor& dx) override;
  status add(const tensor& a, const tensor& b, const tensor& y) override;
  status attention(const tensor& qkv, std::int64_t heads, const tensor& out, const tensor& log_sum) override;
  status attention_backward(const tensor& dout, const tensor& qkv, const tensor& out, const tensor& log_sum,
                            std::int64_t heads, const tensor& dqkv) override;
  status embedding(const tensor& tokens, const tensor& token_table, const tensor& position_table,
                   const tensor& y) override;
  status embedding_backward(const tensor& dy, const tensor& tokens, const tensor& d_token_table,
                            const tensor& d_position_table) override;
  status cross_entropy(const tensor& logits, const tensor& targets, float scale, const tensor& loss) override;
  status embedding_slice(const tensor& tokens, const vocabulary_slice& slice, const tensor& token_table,
                         const tensor& position_table, const tensor& y) override;
  status embedding_slice_backward(const tensor& dy, const tensor& tokens, const vocabulary_slice& slice,
                                  const tensor& d_token_table, const tensor& d_position_table) override;
  status cross_entropy_peaks(const tensor& logits, const vocabulary_slice& slice, const tensor& peaks) override;
  status cross_entropy_sums(const tensor& logits, const vocabulary_slice& slice, const tensor& targets,
                            const tensor& peaks, const tensor& sums) override;
  status cross_entropy_gradient(const tensor& logits, const vocabulary_slice& slice, const tensor& targets,
                                const tensor& sums, float scale, const tensor& loss) override;
  status squared_error(const tensor& y, const tensor& target, float scale, const tensor& loss) override;
  status adamw(const adamw_args& args, const tensor& parameter, const tensor& gradient, const tensor& moment1,
               const tensor& moment2) override;
  result<double> squared_norm(const tensor& x) override;
  status fill(const tensor& x, float value) override;
  status fill_normal(const tensor& x, std::uint64_t seed, std::string_view name, float deviation,
                     const element_slice& part = {}) override;
  status fill_uniform(const tensor& x, std::uint64_t seed, std::string_view name, float bound,
                      const element_slice& part = {}) override;
  status copy(const tensor& from, const tensor& to) override;
  status synchronise() override { return {}; }

private:
  std::shared_ptr<memory_source> memory_;
  scratch_memory scratch_;
};

}  // namespace troupe
