#include "actors/stage/stage.hpp"
#include "gpu_bench.hpp"
#include "kernels/layers/gpt.hpp"

using namespace troupe;

namespace {

constexpr std::int64_t sequences = 2, length = 96, vocabulary = 101;
constexpr std::uint32_t micro_batches = 2;
const gpt_config config{.layers = 2, .hidden = 64, .heads = 4, .seq_len = length, .vocab = vocabulary};

/// A whole tied GPT in one stage, trained by hand on one backend.
struct trained {
  backend& ops;
  std::vector<float> losses;
  std::vector<double> norms;
  gpu_bench::tensors parameters;  // on the host

  trained(backend& on, const gpu_bench::tensors& tokens, int steps) : ops(on) {
    auto layers = make_gpt(config), listed = make_gpt(config);
    REQUIRE(layers);
    const stage_split split{layers->size()};
    const auto table = parameter_table::make(*listed, split);
    REQUIRE(table);
    stage_settings settings;
    settings.micro_batches = micro_batches;
    settings.loss_scale = 1.0F / (micro_batches * sequences * length);
    auto made = stage::make(std::move(*layers), split, *table, {dtype::i32, {sequences, length}}, ops, settings);
    REQUIRE(made);
    for (int step = 0; step < steps; ++step) run(*made, tokens, static_cast<std::uint64_t>(step));
    for (const auto& p : made->parameters()) {
      auto here = made->to_host(p.value);
      REQUIRE(here);
      parameters.push_back(*here);
    }
  }

  void run(stage& model, const gpu_bench::tensors& tokens, std::uint64_t step) {
    for (std::uint32_t mb = 0; mb < micro_batches; ++mb) {
      const auto loss = model.forward(mb, tokens[mb], tokens[mb + 1]);
      REQUIRE(loss);
      losses.push_back(0);
      REQUIRE(model.read_loss(*loss, losses.back()));
      REQUIRE(model.backward(mb, {}));
    }
    REQUIRE(model.combine_shared({}));
    const auto squared = model.squared_norms();
    REQUIRE(squared);
    for (const auto& n : *squared) norms.push_back(n.squared);
    REQUIRE(model.apply({step, 1e-3F, 1}));
  }
};

}  // namespace

TEST_CASE("two steps of a GPT on the GPU follow the CPU's within rounding and repeat their bits", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  gpu_bench::tensors tokens;
  for (std::uint32_t i = 0; i <= micro_batches; ++i) tokens.push_back(bench.indices({sequences, length}, vocabulary));
  const trained cpu(*bench.cpu, tokens, 2), gpu(*bench.gpu, tokens, 2), again(*bench.gpu, tokens, 2);

  CHECK(gpu.losses == again.losses);
  CHECK(gpu.norms == again.norms);
  for (std::size_t i = 0; i < cpu.losses.size(); ++i) CHECK(gpu.losses[i] == Approx(cpu.losses[i]).epsilon(1e-5));
  for (std::size_t i = 0; i < cpu.norms.size(); ++i) CHECK(gpu.norms[i] == Approx(cpu.norms[i]).epsilon(1e-3));
  // AdamW's first updates are the learning rate times a sign, nearly: where a gradient vanishes, rounding decides it.
  for (std::size_t i = 0; i < cpu.parameters.size(); ++i) {
    CHECK(bench.bits(gpu.parameters[i]) == bench.bits(again.parameters[i]));
    const auto a = gpu.parameters[i].values<float>(), b = cpu.parameters[i].values<float>();
    for (std::size_t j = 0; j < a.size(); ++j)
      if (std::abs(a[j] - b[j]) > 4.1e-3F)
        FAIL("parameter " << i << ", element " << j << ": " << a[j] << " and " << b[j]);
  }
}
