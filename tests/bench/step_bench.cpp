// One shard's training step against its GEMMs alone: hidden 512, 4 layers, seq 256, micro-batch 4. This program defines
// dnnl_sgemm itself and passes each call on, so that it knows the very calls of one step and can repeat them alone, on
// the same memory, in the same order.

#include <dlfcn.h>
#include <dnnl.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "actors/stage/stage.hpp"
#include "kernels/core/clock.hpp"
#include "kernels/layers/gpt.hpp"
#include "report.hpp"

using namespace troupe;

namespace {

struct call {
  char transpose_a, transpose_b;
  dnnl_dim_t m, n, k, lda, ldb, ldc;
  float alpha, beta;
  const float *a, *b;
  float* c;
};
std::vector<call> calls;
bool recording = false;

using sgemm_function = decltype(&dnnl_sgemm);
sgemm_function real_sgemm() {
  static const auto real = reinterpret_cast<sgemm_function>(dlsym(RTLD_NEXT, "dnnl_sgemm"));
  return real;
}

constexpr gpt_config model{4, 512, 8, 256, 256, true};
constexpr std::int64_t sequences = 4;

template <class T>
T value_of(result<T> r) {
  if (!r) {
    fmt::print(stderr, "{}\n", to_string(r.error()));
    std::exit(1);
  }
  return std::move(*r);
}

void must(const status& s) {
  if (s) return;
  fmt::print(stderr, "{}\n", to_string(s.error()));
  std::exit(1);
}

struct one_shard {
  one_shard() {
    auto layers = value_of(make_gpt(model));
    const stage_split split{layers.size()};
    const auto table = value_of(parameter_table::make(layers, split));
    stage_settings s;
    s.loss_scale = 1.0F / (sequences * 256);
    s.weight_decay = 0.1F;
    const tensor_spec tokens{dtype::i32, {sequences, model.seq_len}};
    shard = std::make_unique<stage>(value_of(stage::make(std::move(layers), split, table, tokens, *ops, s)));
    for (auto* t : {&input, &target}) {
      *t = value_of(tensor::make(memory, tokens));
      std::int32_t i = 0;
      for (auto& v : t->values<std::int32_t>()) v = i = (i * 37 + 11) % 256;
    }
  }
  void step(std::uint64_t k) {
    float loss = 0;
    must(shard->read_loss(value_of(shard->forward(0, input, target)), loss));
    (void)value_of(shard->backward(0, {}));
    must(shard->combine_shared({}));
    (void)value_of(shard->squared_norms());
    must(shard->apply({k, 1e-4F, 1}));
  }
  std::unique_ptr<backend> ops = value_of(make_cpu_backend());
  std::unique_ptr<stage> shard;
  buffer_pool memory{host_memory()};
  tensor input, target;
};

void repeat_gemms() {
  for (const auto& c : calls)
    real_sgemm()(c.transpose_a, c.transpose_b, c.m, c.n, c.k, c.alpha, c.a, c.lda, c.b, c.ldb, c.beta, c.c, c.ldc);
}

template <class F>
double seconds(F&& f) {
  const auto start = monotonic_ns();
  f();
  return static_cast<double>(monotonic_ns() - start) * 1e-9;
}

}  // namespace

extern "C" dnnl_status_t dnnl_sgemm(char ta, char tb, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k, float alpha,
                                    const float* a, dnnl_dim_t lda, const float* b, dnnl_dim_t ldb, float beta,
                                    float* c, dnnl_dim_t ldc) {
  if (recording) calls.push_back({ta, tb, m, n, k, lda, ldb, ldc, alpha, beta, a, b, c});
  return real_sgemm()(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

int main(int argc, char** argv) {
  bench::report out(
      "one shard, hidden 512, 4 layers, seq 256, micro-batch 4: a step (forward, backward, norm, update)");
  one_shard shard;
  shard.step(0);
  recording = true;
  shard.step(1);
  recording = false;
  repeat_gemms();

  std::vector<double> ratios, steps, gemms;
  for (std::uint64_t pair = 0; pair < 9; ++pair) {
    steps.push_back(seconds([&] { shard.step(2 + pair); }));
    gemms.push_back(seconds(repeat_gemms));
    ratios.push_back(steps.back() / gemms.back());
  }
  double flops = 0;
  for (const auto& c : calls)
    flops += 2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
  out.add("step", bench::median(steps) * 1e3, "ms");
  out.add("its GEMMs alone", bench::median(gemms) * 1e3, "ms");
  out.add("GEMM rate alone", flops / bench::median(gemms) * 1e-9, "GFLOP/s");
  out.add("step / its GEMMs (median of 9 paired ratios)", bench::median(ratios), "x", bench::report::demand::at_most,
          1.4);
  return out.finish(argc, argv);
}
