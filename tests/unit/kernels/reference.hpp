#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numbers>
#include <vector>

/// The operations again, in f64 and as their definitions read: what the backends are held to. Gradients need no second
/// derivation: central differences of these give them.
namespace reference {

using array = std::vector<double>;
using indices = std::vector<std::int32_t>;

inline array transposed(const array& a, std::size_t rows, std::size_t columns) {
  array t(a.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) t[j * rows + i] = a[i * columns + j];
  return t;
}

/// a [m, k] · b [k, n]
inline array product(const array& a, const array& b, std::size_t m, std::size_t n, std::size_t k) {
  array c(m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t l = 0; l < k; ++l) c[i * n + j] += a[i * k + l] * b[l * n + j];
  return c;
}

inline array layer_norm(const array& x, const array& gamma, const array& beta, double epsilon) {
  const auto n = gamma.size();
  array y(x.size());
  for (std::size_t row = 0; row < x.size(); row += n) {
    double mean = 0, variance = 0;
    for (std::size_t j = 0; j < n; ++j) mean += x[row + j] / static_cast<double>(n);
    for (std::size_t j = 0; j < n; ++j) variance += std::pow(x[row + j] - mean, 2) / static_cast<double>(n);
    for (std::size_t j = 0; j < n; ++j)
      y[row + j] = (x[row + j] - mean) / std::sqrt(variance + epsilon) * gamma[j] + beta[j];
  }
  return y;
}

inline double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

/// qkv [B, S, 3·H] to [B, S, H].
inline array attention(const array& qkv, std::size_t batch, std::size_t sequence, std::size_t hidden,
                       std::size_t heads) {
  const auto width = hidden / heads;
  array out(batch * sequence * hidden);
  const auto at = [&](std::size_t b, std::size_t s, std::size_t part, std::size_t h, std::size_t d) {
    return qkv[((b * sequence + s) * 3 + part) * hidden + h * width + d];
  };
  for (std::size_t b = 0; b < batch; ++b)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < sequence; ++i) {
        array weights(i + 1);
        double total = 0;
        for (std::size_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::size_t d = 0; d < width; ++d) score += at(b, i, 0, h, d) * at(b, j, 1, h, d);
          weights[j] = std::exp(score / std::sqrt(static_cast<double>(width)));
          total += weights[j];
        }
        for (std::size_t j = 0; j <= i; ++j)
          for (std::size_t d = 0; d < width; ++d)
            out[(b * sequence + i) * hidden + h * width + d] += weights[j] / total * at(b, j, 2, h, d);
      }
  return out;
}

inline array embedding(const indices& tokens, const array& token_table, const array& position_table,
                       std::size_t sequence, std::size_t hidden) {
  array y(tokens.size() * hidden);
  for (std::size_t row = 0; row < tokens.size(); ++row)
    for (std::size_t j = 0; j < hidden; ++j)
      y[row * hidden + j] =
          token_table[static_cast<std::size_t>(tokens[row]) * hidden + j] + position_table[row % sequence * hidden + j];
  return y;
}

/// The sum of −log softmax(logits)[target] over rows.
inline double cross_entropy(const array& logits, const indices& targets) {
  const auto n = logits.size() / targets.size();
  double loss = 0;
  for (std::size_t r = 0; r < targets.size(); ++r) {
    double total = 0;
    const double own = logits[r * n + static_cast<std::size_t>(targets[r])];
    for (std::size_t j = 0; j < n; ++j) total += std::exp(logits[r * n + j] - own);
    loss += std::log(total);
  }
  return loss;
}

inline double squared_error(const array& y, const array& target) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += std::pow(y[i] - target[i], 2);
  return sum;
}

/// The gradient of f at x by central differences.
inline array gradient(const std::function<double(const array&)>& f, array x) {
  constexpr double h = 1e-5;
  array g;
  for (auto& v : x) {
    const double at = v;
    v = at + h;
    const double above = f(x);
    v = at - h;
    g.push_back((above - f(x)) / (2 * h));
    v = at;
  }
  return g;
}

/// Σ weights·y: turns an operation's output into the scalar whose gradient a backward computes from dy = weights.
inline double weighted(const array& weights, const array& y) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += weights[i] * y[i];
  return sum;
}

}  // namespace reference
