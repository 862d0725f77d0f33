#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

/// The layers once more, in f64 and in the plainest loops: what the real ones are checked against. Nothing is shared
/// with them. Every array is row-major; parameters come in the order in which the layer declares them.
namespace reference_gpt {

using values = std::vector<double>;

/// [B, S] and the model's sizes.
struct extents {
  std::size_t batch, sequence, hidden, heads, vocab;
};

/// x [rows, in], w [in, out], b [out] to [rows, out].
inline values linear(const values& x, const values& w, const values& b) {
  const std::size_t out = b.size(), in = w.size() / out, rows = x.size() / in;
  values y(rows * out);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < out; ++o) {
      y[r * out + o] = b[o];
      for (std::size_t i = 0; i < in; ++i) y[r * out + o] += x[r * in + i] * w[i * out + o];
    }
  return y;
}

inline values layer_norm(const values& x, const values& gamma, const values& beta) {
  const std::size_t n = gamma.size();
  values y(x.size());
  for (std::size_t r = 0; r < x.size(); r += n) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < n; ++i) mean += x[r + i] / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) variance += std::pow(x[r + i] - mean, 2) / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) y[r + i] = (x[r + i] - mean) / std::sqrt(variance + 1e-5) * gamma[i] + beta[i];
  }
  return y;
}

inline values gelu(values x) {
  for (auto& v : x) v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
  return x;
}

inline values add(values a, const values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// qkv [B, S, 3H] to [B, S, H]; each position attends to itself and those before it.
inline values attention(const values& qkv, const extents& e) {
  const std::size_t h = e.hidden, width = h / e.heads;
  values y(e.batch * e.sequence * h);
  for (std::size_t b = 0; b < e.batch; ++b)
    for (std::size_t head = 0; head < e.heads; ++head)
      for (std::size_t i = 0; i < e.sequence; ++i) {
        const auto at = [&](std::size_t s, std::size_t part) {
          return ((b * e.sequence + s) * 3 + part) * h + head * width;
        };
        values weight(i + 1);
        double sum = 0;
        for (std::size_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::size_t d = 0; d < width; ++d) score += qkv[at(i, 0) + d] * qkv[at(j, 1) + d];
          sum += weight[j] = std::exp(score / std::sqrt(static_cast<double>(width)));
        }
        for (std::size_t j = 0; j <= i; ++j)
          for (std::size_t d = 0; d < width; ++d)
            y[(b * e.sequence + i) * h + head * width + d] += weight[j] / sum * qkv[at(j, 2) + d];
      }
  return y;
}

/// tokens [B, S] to [B, S, H].
inline values embedding(const std::vector<std::int32_t>& tokens, const std::vector<values>& p, const extents& e) {
  values y(tokens.size() * e.hidden);
  for (std::size_t t = 0; t < tokens.size(); ++t)
    for (std::size_t i = 0; i < e.hidden; ++i)
      y[t * e.hidden + i] =
          p[0][static_cast<std::size_t>(tokens[t]) * e.hidden + i] + p[1][t % e.sequence * e.hidden + i];
  return y;
}

inline values block(const values& x, const std::vector<values>& p, const extents& e) {
  const auto qkv = linear(layer_norm(x, p[0], p[1]), p[2], p[3]);
  const auto middle = add(linear(attention(qkv, e), p[4], p[5]), x);
  const auto wide = linear(layer_norm(middle, p[6], p[7]), p[8], p[9]);
  return add(linear(gelu(wide), p[10], p[11]), middle);
}

/// The summed loss of x [B, S, H], times `scale`.
inline double head(const values& x, const std::vector<std::int32_t>& targets, const std::vector<values>& p,
                   double scale, const extents& e) {
  const auto normed = layer_norm(x, p[0], p[1]);
  double loss = 0;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    values logits(e.vocab);
    for (std::size_t v = 0; v < e.vocab; ++v)
      for (std::size_t i = 0; i < e.hidden; ++i) logits[v] += normed[t * e.hidden + i] * p[2][v * e.hidden + i];
    double sum = 0;
    for (double l : logits) sum += std::exp(l);
    loss += std::log(sum) - logits[static_cast<std::size_t>(targets[t])];
  }
  return scale * loss;
}

}  // namespace reference_gpt
