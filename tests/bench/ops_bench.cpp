// How fast the CPU's operations are at the shapes of a small GPT: each one's time, its rate, its share of what memory
// allows, and what all of them add to the GEMMs of one training step.
#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "kernels/ops/backend.hpp"
#include "report.hpp"

using namespace troupe;

namespace {

constexpr std::int64_t batch = 4, sequence = 256, hidden = 512, heads = 8, layers = 4, vocabulary = 256;
constexpr std::int64_t rows = batch * sequence;
constexpr double parameters = layers * 12.0 * hidden * hidden + (vocabulary + sequence) * hidden;

class ops_bench {
public:
  ops_bench() {
    auto& large = made_.emplace_back(make({3 * (1 << 24)}));
    const auto part = [&](std::int64_t i) { return large.slice(i << 24, 1 << 24); };
    const double seconds = time([&] { return ops_->add(part(0), part(1), part(2)); });
    bandwidth_ = 12.0 * (1 << 24) / seconds;
    fmt::print("memory: {:.1f} GB/s (add of 64 MiB vectors)\n\n", bandwidth_ / 1e9);
    fmt::print("{:<28}{:>10}{:>12}{:>12}{:>10}{:>10}{:>12}\n", "operation", "us", "GFLOP/s", "ns/element", "GB/s",
               "of memory", "ms a step");
    made_.clear();
  }

  tensor make(shape dims, float bound = 1) {
    auto t = tensor::make(pool_, {dtype::f32, dims}).value();
    if (!ops_->fill_uniform(t, 1, "bench", bound)) std::abort();
    return t;
  }
  tensor make_indices(shape dims) {
    auto t = tensor::make(pool_, {dtype::i32, dims}).value();
    std::int32_t i = 0;
    for (auto& v : t.values<std::int32_t>()) v = (i += 37) % static_cast<std::int32_t>(vocabulary);
    return t;
  }

  /// `y` = x·w and its two gradients, [rows, k] by [k, n], each `count` times a step.
  void gemms(const std::string& name, std::int64_t k, std::int64_t n, double count) {
    const auto x = make({rows, k}), w = make({k, n}), y = make({rows, n});
    const auto report = [&](const char* what, const gemm_args& args) {
      const double seconds = time([&] { return ops_->gemm(args); });
      gemm_seconds_ += count * seconds;
      fmt::print("{:<28}{:>10.0f}{:>12.0f}{:>12}{:>10}{:>10}{:>12.1f}\n", name + what, seconds * 1e6,
                 2.0 * rows * k * n / seconds / 1e9, "", "", "", count * seconds * 1e3);
    };
    auto *px = x.data<float>(), *pw = w.data<float>(), *py = y.data<float>();
    report(" forward", {false, false, rows, n, k, 1, px, k, pw, n, 0, py, n});
    report(" d input", {false, true, rows, k, n, 1, py, n, pw, n, 0, px, k});
    report(" d weight", {true, false, k, n, rows, 1e-9F, px, k, py, n, 1, pw, n});
  }

  /// An operation over `elements` that moves `bytes_each` a piece, `count` times a step.
  void op(const std::string& name, double elements, double bytes_each, double count,
          const std::function<status()>& run) {
    const double seconds = time(run), rate = elements * bytes_each / seconds;
    other_seconds_ += count * seconds;
    fmt::print("{:<28}{:>10.0f}{:>12}{:>12.3f}{:>10.1f}{:>10.2f}{:>12.1f}\n", name, seconds * 1e6, "",
               seconds / elements * 1e9, rate / 1e9, rate / bandwidth_, count * seconds * 1e3);
    shares_.emplace_back(name, rate / bandwidth_);
  }

  int summary(int argc, char** argv) const {
    bench::report out("\nthe same in short, for one step (hidden 512, 4 layers, seq 256, micro-batch 4)");
    out.add("memory bandwidth, add of 64 MiB vectors", bandwidth_ / 1e9, "GB/s");
    for (const auto& [name, share] : shares_) out.add(name + ", share of memory bandwidth", share, "x");
    out.add("GEMMs of a step", gemm_seconds_ * 1e3, "ms");
    out.add("everything else of a step", other_seconds_ * 1e3, "ms");
    return out.finish(argc, argv);
  }

  backend& ops() { return *ops_; }

private:
  // The fastest of nine.
  static double time(const std::function<status()>& run) {
    double best = 1e9;
    for (int i = 0; i < 9; ++i) {
      const auto start = std::chrono::steady_clock::now();
      if (!run()) std::abort();
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
  }

  std::unique_ptr<backend> ops_ = std::move(make_cpu_backend()).value();
  buffer_pool pool_{host_memory()};
  std::vector<tensor> made_;
  std::vector<std::pair<std::string, double>> shares_;
  double bandwidth_ = 0, gemm_seconds_ = 0, other_seconds_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  ops_bench bench;
  auto& ops = bench.ops();
  bench.gemms("qkv", hidden, 3 * hidden, layers);
  bench.gemms("projection", hidden, hidden, layers);
  bench.gemms("mlp up", hidden, 4 * hidden, layers);
  bench.gemms("mlp down", 4 * hidden, hidden, layers);
  bench.gemms("head", hidden, vocabulary, 1);

  const double narrow = rows * hidden, wide = 4.0 * rows * hidden;
  const auto x = bench.make({batch, sequence, hidden}), dy = bench.make({batch, sequence, hidden});
  const auto y = bench.make({batch, sequence, hidden});
  const auto u = bench.make({rows, 4 * hidden}, 3), du = bench.make({rows, 4 * hidden}),
             v = bench.make({rows, 4 * hidden});
  const auto qkv = bench.make({batch, sequence, 3 * hidden}), dqkv = bench.make({batch, sequence, 3 * hidden});
  const auto log_sum = bench.make({batch, heads, sequence}), statistics = bench.make({2 * rows});
  const auto gamma = bench.make({hidden}), wide_bias = bench.make({4 * hidden}), loss = bench.make({1});
  const auto mean = statistics.slice(0, rows), rstd = statistics.slice(rows, rows);
  const auto tokens = bench.make_indices({batch, sequence}), table = bench.make({vocabulary, hidden});
  const auto logits = bench.make({rows, vocabulary}, 4);

  bench.op("attention", narrow, 16, layers, [&] { return ops.attention(qkv, heads, y, log_sum); });
  bench.op("attention backward", narrow, 32, layers,
           [&] { return ops.attention_backward(dy, qkv, y, log_sum, heads, dqkv); });
  bench.op("layer_norm", narrow, 8, 2 * layers + 1,
           [&] { return ops.layer_norm(x, gamma, gamma, 1e-5F, y, mean, rstd); });
  bench.op("layer_norm backward input", narrow, 16, 2 * layers + 1,
           [&] { return ops.layer_norm_backward_input(dy, x, gamma, mean, rstd, y, dy); });
  bench.op("layer_norm backward weight", narrow, 8, 2 * layers + 1,
           [&] { return ops.layer_norm_backward_weight(dy, x, mean, rstd, gamma, gamma); });
  bench.op("gelu", wide, 8, layers, [&] { return ops.gelu(u, v); });
  bench.op("gelu backward", wide, 12, layers, [&] { return ops.gelu_backward(u, du, v); });
  bench.op("add", narrow, 12, 2 * layers, [&] { return ops.add(x, dy, y); });
  bench.op("add_bias", wide, 8, layers * 9.0 / 4.0, [&] { return ops.add_bias(v, wide_bias); });
  bench.op("bias_backward", wide, 4, layers * 9.0 / 4.0, [&] { return ops.bias_backward(du, wide_bias); });
  bench.op("embedding", narrow, 12, 1, [&] { return ops.embedding(tokens, table, table, y); });
  bench.op("embedding backward", narrow, 20, 1, [&] { return ops.embedding_backward(dy, tokens, table, table); });
  bench.op("cross_entropy", rows * vocabulary, 8, 1, [&] { return ops.cross_entropy(logits, tokens, 1, loss); });

  constexpr std::int64_t some = 1 << 22;
  const auto state = bench.make({4 * some});
  const auto part = [&](std::int64_t i) { return state.slice(i * some, some); };
  bench.op("squared_norm", some, 4, parameters / some, [&] {
    const auto norm = ops.squared_norm(part(1));
    return norm ? status() : status(norm.error());
  });
  if (!ops.fill(part(3), 1)) return 1;
  bench.op("adamw", some, 28, parameters / some, [&] { return ops.adamw({}, part(0), part(1), part(2), part(3)); });
  bench.op("fill (zero gradients)", some, 4, parameters / some, [&] { return ops.fill(part(1), 0); });
  bench.op("fill_normal (once a run)", some, 4, 0, [&] { return ops.fill_normal(part(0), 1, "bench", 1); });
  return bench.summary(argc, argv);
}
