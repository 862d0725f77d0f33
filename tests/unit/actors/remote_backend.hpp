#pragma once

#include <sys/mman.h>

#include <initializer_list>
#include <memory>

#include "kernels/ops/backend.hpp"

/// Pages that can be touched only between `open` and `close`.
class guarded_memory final : public troupe::memory_source {
public:
  guarded_memory() : base_(mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~guarded_memory() override { munmap(base_, size); }
  guarded_memory(const guarded_memory&) = delete;
  guarded_memory& operator=(const guarded_memory&) = delete;

  troupe::device where() const noexcept override { return {troupe::device_kind::cuda, 0}; }
  troupe::result<void*> allocate(std::size_t bytes) override {
    if (used_ + bytes > size) return troupe::error{troupe::errc::out_of_memory, "guarded memory"};
    return static_cast<std::byte*>(base_) + std::exchange(used_, used_ + (bytes + 63) / 64 * 64);
  }
  void release(void*, std::size_t) noexcept override {}  // all at once, with the pages

  void open() { mprotect(base_, size, PROT_READ | PROT_WRITE); }
  void close() { mprotect(base_, size, PROT_NONE); }
  bool holds(const void* p) const {
    return p >= base_ && static_cast<const std::byte*>(p) < static_cast<const std::byte*>(base_) + size;
  }

private:
  static constexpr std::size_t size = 32U << 20;
  void* base_;
  std::size_t used_ = 0;
};

/// The CPU's operations in the guise of a GPU, to test what stands between host and device on any machine: host code
/// that reads a device tensor faults, and an operation that is given a host tensor refuses.
class remote_backend final : public troupe::backend {
public:
  using tensor = troupe::tensor;
  using status = troupe::status;

  troupe::device where() const noexcept override { return memory_->where(); }
  std::shared_ptr<troupe::memory_source> memory() const override { return memory_; }

  status gemm(const troupe::gemm_args& args) override {
    if (!memory_->holds(args.a) || !memory_->holds(args.b) || !memory_->holds(args.c)) return refusal();
    return run({}, [&] { return cpu_->gemm(args); });
  }
  status add_bias(const tensor& y, const tensor& bias) override {
    return run({y, bias}, [&] { return cpu_->add_bias(y, bias); });
  }
  status bias_backward(const tensor& dy, const tensor& dbias) override {
    return run({dy, dbias}, [&] { return cpu_->bias_backward(dy, dbias); });
  }
  status layer_norm(const tensor& x, const tensor& gamma, const tensor& beta, float epsilon, const tensor& y,
                    const tensor& mean, const tensor& rstd) override {
    return run({x, gamma, beta, y, mean, rstd},
               [&] { return cpu_->layer_norm(x, gamma, beta, epsilon, y, mean, rstd); });
  }
  status layer_norm_backward_input(const tensor& dy, const tensor& x, const tensor& gamma, const tensor& mean,
                                   const tensor& rstd, const tensor& dx, const tensor& add_to) override {
    return run({dy, x, gamma, mean, rstd, dx, add_to ? add_to : x},
               [&] { return cpu_->layer_norm_backward_input(dy, x, gamma, mean, rstd, dx, add_to); });
  }
  status layer_norm_backward_weight(const tensor& dy, const tensor& x, const tensor& mean, const tensor& rstd,
                                    const tensor& dgamma, const tensor& dbeta) override {
    return run({dy, x, mean, rstd, dgamma, dbeta},
               [&] { return cpu_->layer_norm_backward_weight(dy, x, mean, rstd, dgamma, dbeta); });
  }
  status gelu(const tensor& x, const tensor& y) override {
    return run({x, y}, [&] { return cpu_->gelu(x, y); });
  }
  status gelu_backward(const tensor& x, const tensor& dy, const tensor& dx) override {
    return run({x, dy, dx}, [&] { return cpu_->gelu_backward(x, dy, dx); });
  }
  status add(const tensor& a, const tensor& b, const tensor& y) override {
    return run({a, b, y}, [&] { return cpu_->add(a, b, y); });
  }
  status attention(const tensor& qkv, std::int64_t heads, const tensor& out, const tensor& log_sum) override {
    return run({qkv, out, log_sum}, [&] { return cpu_->attention(qkv, heads, out, log_sum); });
  }
  status attention_backward(const tensor& dout, const tensor& qkv, const tensor& out, const tensor& log_sum,
                            std::int64_t heads, const tensor& dqkv) override {
    return run({dout, qkv, out, log_sum, dqkv},
               [&] { return cpu_->attention_backward(dout, qkv, out, log_sum, heads, dqkv); });
  }
  status embedding(const tensor& tokens, const tensor& token_table, const tensor& position_table,
                   const tensor& y) override {
    return run({tokens, token_table, position_table, y},
               [&] { return cpu_->embedding(tokens, token_table, position_table, y); });
  }
  status embedding_backward(const tensor& dy, const tensor& tokens, const tensor& d_token_table,
                            const tensor& d_position_table) override {
    return run({dy, tokens, d_token_table, d_position_table},
               [&] { return cpu_->embedding_backward(dy, tokens, d_token_table, d_position_table); });
  }
  status cross_entropy(const tensor& logits, const tensor& targets, float scale, const tensor& loss) override {
    return run({logits, targets, loss}, [&] { return cpu_->cross_entropy(logits, targets, scale, loss); });
  }
  status squared_error(const tensor& y, const tensor& target, float scale, const tensor& loss) override {
    return run({y, target, loss}, [&] { return cpu_->squared_error(y, target, scale, loss); });
  }
  status adamw(const troupe::adamw_args& args, const tensor& parameter, const tensor& gradient, const tensor& moment1,
               const tensor& moment2) override {
    return run({parameter, gradient, moment1, moment2},
               [&] { return cpu_->adamw(args, parameter, gradient, moment1, moment2); });
  }
  troupe::result<double> squared_norm(const tensor& x) override {
    double norm = 0;
    TROUPE_CHECK(run({x}, [&]() -> status {
      TROUPE_TRY(norm, cpu_->squared_norm(x));
      return {};
    }));
    return norm;
  }
  status fill(const tensor& x, float value) override {
    return run({x}, [&] { return cpu_->fill(x, value); });
  }
  status fill_normal(const tensor& x, std::uint64_t seed, std::string_view name, float deviation,
                     const troupe::element_slice& part) override {
    return run({x}, [&] { return cpu_->fill_normal(x, seed, name, deviation, part); });
  }
  status fill_uniform(const tensor& x, std::uint64_t seed, std::string_view name, float bound,
                      const troupe::element_slice& part) override {
    return run({x}, [&] { return cpu_->fill_uniform(x, seed, name, bound, part); });
  }
  status embedding_slice(const tensor& tokens, const troupe::vocabulary_slice& slice, const tensor& token_table,
                         const tensor& position_table, const tensor& y) override {
    return run({tokens, token_table, position_table, y},
               [&] { return cpu_->embedding_slice(tokens, slice, token_table, position_table, y); });
  }
  status embedding_slice_backward(const tensor& dy, const tensor& tokens, const troupe::vocabulary_slice& slice,
                                  const tensor& d_token_table, const tensor& d_position_table) override {
    return run({dy, tokens, d_token_table, d_position_table},
               [&] { return cpu_->embedding_slice_backward(dy, tokens, slice, d_token_table, d_position_table); });
  }
  status cross_entropy_peaks(const tensor& logits, const troupe::vocabulary_slice& slice,
                             const tensor& peaks) override {
    return run({logits, peaks}, [&] { return cpu_->cross_entropy_peaks(logits, slice, peaks); });
  }
  status cross_entropy_sums(const tensor& logits, const troupe::vocabulary_slice& slice, const tensor& targets,
                            const tensor& peaks, const tensor& sums) override {
    return run({logits, targets, peaks, sums},
               [&] { return cpu_->cross_entropy_sums(logits, slice, targets, peaks, sums); });
  }
  status cross_entropy_gradient(const tensor& logits, const troupe::vocabulary_slice& slice, const tensor& targets,
                                const tensor& sums, float scale, const tensor& loss) override {
    return run({logits, targets, sums, loss},
               [&] { return cpu_->cross_entropy_gradient(logits, slice, targets, sums, scale, loss); });
  }
  status copy(const tensor& from, const tensor& to) override {
    return run({}, [&] { return cpu_->copy(from, to); });
  }
  status synchronise() override { return {}; }

private:
  static status refusal() { return troupe::invalid("an operation of the device was given a host tensor"); }

  template <class Operation>
  status run(std::initializer_list<tensor> operands, Operation operation) {
    for (const auto& t : operands)
      if (t && !memory_->holds(t.raw())) return refusal();
    memory_->open();
    auto done = operation();
    memory_->close();
    return done;
  }

  std::shared_ptr<guarded_memory> memory_ = std::make_shared<guarded_memory>();
  std::unique_ptr<troupe::backend> cpu_ = std::move(troupe::make_cpu_backend()).value();
};
