#include "op_bench.hpp"

using namespace troupe;

namespace {

constexpr std::int64_t rows = 37, n = 83, heads = 3, hidden = 36;

// Runs every operation that sums or vectorises, its tensors `shift` elements past an aligned address, and returns all
// that came out. Inputs are the same at each call.
std::vector<std::string> run_all(std::int64_t shift) {
  op_bench bench;
  auto& ops = *bench.ops;
  std::vector<std::string> out;
  const auto at = [&](const tensor& t) {
    auto moved = bench.make({t.elements() + shift}, t.type()).slice(shift, t.elements()).reshaped(t.dims());
    REQUIRE(ops.copy(t, moved));
    return moved;
  };
  const auto random = [&](shape dims) { return at(bench.uniform(dims)); };
  const auto keep = [&](const status& done, std::initializer_list<tensor> results) {
    REQUIRE(done);
    for (const auto& t : results) out.push_back(bits(t));
  };

  const auto x = random({rows, n}), w = random({n, n}), y = random({rows, n}), dy = random({rows, n}),
             dx = random({rows, n});
  keep(ops.gemm({false, true, rows, n, n, 1, x.data<float>(), n, w.data<float>(), n, 0, y.data<float>(), n}), {y});
  keep(ops.gemm({true, false, n, n, rows, 1, x.data<float>(), n, dy.data<float>(), n, 1, w.data<float>(), n}), {w});
  const auto gamma = random({n}), beta = random({n}), mean = random({rows}), rstd = random({rows});
  keep(ops.layer_norm(x, gamma, beta, 1e-5F, y, mean, rstd), {y, mean, rstd});
  keep(ops.layer_norm_backward_input(dy, x, gamma, mean, rstd, dx, x), {dx});
  keep(ops.layer_norm_backward_weight(dy, x, mean, rstd, gamma, beta), {gamma, beta});
  keep(ops.add_bias(y, beta), {y});
  keep(ops.bias_backward(dy, beta), {beta});
  keep(ops.gelu(x, y), {y});
  keep(ops.gelu_backward(x, dy, dx), {dx});
  const auto qkv = random({2, rows * 3, 3 * hidden}), mixed = random({2, rows * 3, hidden});
  const auto log_sum = random({2, heads, rows * 3}), dqkv = random({2, rows * 3, 3 * hidden});
  keep(ops.attention(qkv, heads, mixed, log_sum), {mixed, log_sum});
  keep(ops.attention_backward(mixed, qkv, mixed, log_sum, heads, dqkv), {dqkv});
  const auto targets = at(bench.indices({rows}, n)), loss = random({1});
  keep(ops.cross_entropy(y, targets, 1, loss), {y, loss});
  keep(ops.squared_error(dx, dy, 1, loss), {dx, loss});
  const auto moment1 = random({rows, n}), moment2 = at(bench.uniform({rows, n}, 0, 1));
  keep(ops.adamw({.learning_rate = 0.1F}, x, dy, moment1, moment2), {x, moment1, moment2});
  return out;
}

}  // namespace

TEST_CASE("every operation gives the same bits on a repeat and at any address", "[ops]") {
  const auto first = run_all(0);
  CHECK(run_all(0) == first);
  for (std::int64_t shift : {1, 3, 8}) {
    const auto shifted = run_all(shift);
    REQUIRE(shifted.size() == first.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      CAPTURE(shift, i);
      CHECK((shifted[i] == first[i]));
    }
  }
}
