#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/ops/backend.hpp"
#include "kernels/ops/cuda/cublas_sgemm.hpp"
#include "kernels/ops/cuda/cuda_stream.hpp"
#include "kernels/ops/cuda/device_report.hpp"
#include "kernels/ops/scratch_memory.hpp"

namespace troupe {

/// One GPU's backend: operations check their operands (kernels/ops/checks.hpp), enqueue on the backend's own stream and
/// return. What the host can only learn from the device surfaces at the next `synchronise`: a fault inside a kernel, or
/// an index outside its table (`invalid_argument` in the CPU's words; the kernel read row 0 in its place).
///
/// Bits: no atomics, and every sum's order follows from the extents alone, so results repeat on the same kind of GPU
/// with the same cuBLAS. Beside the CPU's:
///   same bits    add_bias, add, embedding and its backward, fill, fill_normal, fill_uniform, copy
///   same order   layer_norm, its backward_input: they differ by fused multiply-adds only
///   rounding     all else. Column sums add 32 partial sums; squared_norm and squared_error, in f64, and cross_entropy
///                split a sum by a pattern of their own.
class cuda_backend final : public backend {
public:
  /// Errors: `invalid_argument` (no usable device: the driver's text), `out_of_memory`, `device_lost`.
  static result<std::unique_ptr<backend>> make(device where);
  ~cuda_backend() override;

  device where() const noexcept override { return where_; }
  std::shared_ptr<memory_source> memory() const override { return memory_; }
  std::shared_ptr<memory_source> staging_memory() const override { return pinned_; }
  cudaStream_t stream() const noexcept { return stream_.get(); }  ///< Borrowed, while this lives.

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
  /// Both refuse heads wider than 256 elements.
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
  status synchronise() override;

private:
  struct give_back {
    std::shared_ptr<memory_source> source;
    void operator()(device_report* r) const noexcept { source->release(r, sizeof(device_report)); }
  };
  using report = std::unique_ptr<device_report, give_back>;

  cuda_backend(device where, std::shared_ptr<memory_source> memory, std::shared_ptr<memory_source> pinned,
               cuda_stream stream, cublas_sgemm sgemm, report from_device)
      : where_(where),
        memory_(std::move(memory)),
        pinned_(std::move(pinned)),
        stream_(std::move(stream)),
        sgemm_(std::move(sgemm)),
        report_(std::move(from_device)),
        scratch_(memory_) {}

  /// Enqueues the check that all of `indices` are in [0, limit); `synchronise` reports what it finds.
  status expect_below(checked_indices operand, const tensor& indices, std::int64_t limit);
  /// The first finding of those checks, which is then forgotten.
  status take_index_fault();
  /// Host numbers to the device; waits.
  status upload(const float* numbers, const tensor& x);

  device where_;
  std::shared_ptr<memory_source> memory_, pinned_;
  cuda_stream stream_;
  cublas_sgemm sgemm_;
  report report_;
  scratch_memory scratch_;
  std::vector<tensor> in_flight_;  // host sides of copies, which must not be reused before they are done
};

}  // namespace troupe
