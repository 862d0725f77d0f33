#include <algorithm>
#include <cmath>

#include "kernels/ops/checks.hpp"
#include "kernels/ops/cpu/cpu_backend.hpp"
#include "kernels/ops/cpu/sgemm.hpp"
#include "kernels/ops/cpu/softmax.hpp"

namespace troupe {

namespace {

constexpr std::int64_t block_rows = 64;  // queries that share one strip of scores

/// One head of one sequence inside [B, S, ·] tensors, as strided matrices [S, D].
struct head_view {
  std::int64_t sequence, width, hidden;  // S, D, H
  float scale;                           // 1/√D
  std::int64_t qkv_offset, out_offset, row_offset;

  head_view(const shape& qkv, std::int64_t heads, std::int64_t b, std::int64_t head)
      : sequence(qkv[1]),
        width(qkv[2] / 3 / heads),
        hidden(qkv[2] / 3),
        scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(width)))),
        qkv_offset(b * sequence * 3 * hidden + head * width),
        out_offset(b * sequence * hidden + head * width),
        row_offset((b * heads + head) * sequence) {}

  template <class Float>
  struct matrices {
    Float *q, *k, *v;
  };
  template <class Float>
  matrices<Float> split(Float* qkv) const {
    return {qkv + qkv_offset, qkv + qkv_offset + hidden, qkv + qkv_offset + 2 * hidden};
  }
  std::int64_t qkv_stride() const { return 3 * hidden; }
};

/// Rows [first, first + rows) of the causal score matrix; row i sees keys 0 … first + i, so the strip ends at `keys`.
struct query_block {
  std::int64_t first, rows, keys;
  query_block(std::int64_t first_row, std::int64_t sequence)
      : first(first_row), rows(std::min(block_rows, sequence - first_row)), keys(first + rows) {}
};

// Scores become unnormalised probabilities; masked ones 0. `inverse_sums` take what normalises a row.
TROUPE_VECTORISED void soften(float* scores, const query_block& block, float* log_sum, float* inverse_sums) {
  for (std::int64_t i = 0; i < block.rows; ++i, scores += block.keys) {
    const auto seen = block.first + i + 1;
    const float top = largest(scores, seen);
    const float total = exponentiate_and_sum(scores, seen, top);
    std::fill(scores + seen, scores + block.keys, 0.0F);
    log_sum[i] = top + std::log(total);
    inverse_sums[i] = 1.0F / total;
  }
}

TROUPE_VECTORISED void scale_rows(float* out, std::int64_t stride, const float* factors, std::int64_t rows,
                                  std::int64_t width) {
  for (std::int64_t i = 0; i < rows; ++i, out += stride) {
    const float factor = factors[i];
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) out[j] *= factor;
  }
}

// Row by row Σ dout·out, which is Σ over keys of probability times its gradient (arXiv:2205.14135, appendix B).
TROUPE_VECTORISED void dot_rows(const float* a, const float* b, std::int64_t stride, float* dots, std::int64_t rows,
                                std::int64_t width) {
  for (std::int64_t i = 0; i < rows; ++i, a += stride, b += stride)
    dots[i] = sum<float>(
        width, [ a, b ](std::int64_t j) __attribute__((always_inline)) { return a[j] * b[j]; });
}

// Scores become probabilities again, and the probabilities' gradients become the scores', times `scale`.
TROUPE_VECTORISED void soften_backward(float* scores, float* gradients, const query_block& block, const float* log_sum,
                                       const float* dots, float scale) {
  for (std::int64_t i = 0; i < block.rows; ++i, scores += block.keys, gradients += block.keys) {
    const auto seen = block.first + i + 1;
    const float shift = log_sum[i], dot = dots[i];
#pragma omp simd
    for (std::int64_t j = 0; j < seen; ++j) {
      const float probability = exponential(scores[j] - shift);
      scores[j] = probability;
      gradients[j] = probability * (gradients[j] - dot) * scale;
    }
    std::fill(scores + seen, scores + block.keys, 0.0F);
    std::fill(gradients + seen, gradients + block.keys, 0.0F);
  }
}

status multiply(const float* a, bool transpose_a, std::int64_t lda, const float* b, bool transpose_b, std::int64_t ldb,
                float* c, std::int64_t ldc, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, float beta) {
  return sgemm({transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc});
}

status forward_head(const head_view& head, const float* qkv, float* out, float* log_sum, float* scratch) {
  const auto [q, k, v] = head.split(qkv);
  const auto stride = head.qkv_stride();
  float* inverse_sums = scratch;
  float* scores = scratch + block_rows;
  for (std::int64_t first = 0; first < head.sequence; first += block_rows) {
    const query_block block(first, head.sequence);
    float* out_rows = out + head.out_offset + first * head.hidden;
    TROUPE_CHECK(multiply(q + first * stride, false, stride, k, true, stride, scores, block.keys, block.rows,
                          block.keys, head.width, head.scale, 0));
    soften(scores, block, log_sum + head.row_offset + first, inverse_sums);
    TROUPE_CHECK(multiply(scores, false, block.keys, v, false, stride, out_rows, head.hidden, block.rows, head.width,
                          block.keys, 1, 0));
    scale_rows(out_rows, head.hidden, inverse_sums, block.rows, head.width);
  }
  return {};
}

// From the last block, which sees every key and so writes all of dk and dv, to the first: the others add.
status backward_head(const head_view& head, const float* dout, const float* qkv, const float* out, const float* log_sum,
                     float* dqkv, float* scratch) {
  const auto [q, k, v] = head.split(qkv);
  const auto [dq, dk, dv] = head.split(dqkv);
  const auto stride = head.qkv_stride(), width = head.width;
  float* dots = scratch;
  float* scores = scratch + block_rows;
  float* gradients = scores + block_rows * head.sequence;
  float beta = 0;
  for (auto first = (head.sequence - 1) / block_rows * block_rows; first >= 0; first -= block_rows, beta = 1) {
    const query_block block(first, head.sequence);
    const auto out_rows = head.out_offset + first * head.hidden;
    const auto rows = block.rows, keys = block.keys;
    dot_rows(dout + out_rows, out + out_rows, head.hidden, dots, rows, width);
    TROUPE_CHECK(
        multiply(q + first * stride, false, stride, k, true, stride, scores, keys, rows, keys, width, head.scale, 0));
    TROUPE_CHECK(
        multiply(dout + out_rows, false, head.hidden, v, true, stride, gradients, keys, rows, keys, width, 1, 0));
    soften_backward(scores, gradients, block, log_sum + head.row_offset + first, dots, head.scale);
    TROUPE_CHECK(
        multiply(scores, true, keys, dout + out_rows, false, head.hidden, dv, stride, keys, width, rows, 1, beta));
    TROUPE_CHECK(
        multiply(gradients, true, keys, q + first * stride, false, stride, dk, stride, keys, width, rows, 1, beta));
    TROUPE_CHECK(
        multiply(gradients, false, keys, k, false, stride, dq + first * stride, stride, rows, width, keys, 1, 0));
  }
  return {};
}

}  // namespace

status cpu_backend::attention(const tensor& qkv, std::int64_t heads, const tensor& out, const tensor& log_sum) {
  TROUPE_CHECK(checks::attention("attention", qkv, heads, out, log_sum));
  TROUPE_TRY(float* scratch, scratch_.floats(block_rows * (1 + qkv.dims()[1])));
  for (std::int64_t b = 0; b < qkv.dims()[0]; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      TROUPE_CHECK(forward_head(head_view(qkv.dims(), heads, b, h), qkv.data<float>(), out.data<float>(),
                                log_sum.data<float>(), scratch));
  return {};
}

status cpu_backend::attention_backward(const tensor& dout, const tensor& qkv, const tensor& out, const tensor& log_sum,
                                       std::int64_t heads, const tensor& dqkv) {
  constexpr auto op = "attention_backward";
  TROUPE_CHECK(checks::attention(op, qkv, heads, out, log_sum));
  TROUPE_CHECK(checks::is(op, "dout", dout, out.spec()));
  TROUPE_CHECK(checks::is(op, "dqkv", dqkv, qkv.spec()));
  TROUPE_TRY(float* scratch, scratch_.floats(block_rows * (1 + 2 * qkv.dims()[1])));
  for (std::int64_t b = 0; b < qkv.dims()[0]; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      TROUPE_CHECK(backward_head(head_view(qkv.dims(), heads, b, h), dout.data<float>(), qkv.data<float>(),
                                 out.data<float>(), log_sum.data<float>(), dqkv.data<float>(), scratch));
  return {};
}

}  // namespace troupe
