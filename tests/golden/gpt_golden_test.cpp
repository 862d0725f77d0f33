#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/layers/gpt.hpp"
#include "single_process.hpp"

using namespace troupe;
using nlohmann::json;

namespace {

json golden(const std::string& name) {
  std::ifstream file(std::string(TROUPE_GOLDEN_DIR) + "/" + name);
  REQUIRE(file);
  return json::parse(file);
}

layer_list model_of(const json& m) {
  auto layers = make_gpt({.layers = m["layers"],
                          .hidden = m["hidden"],
                          .heads = m["heads"],
                          .seq_len = m["seq_len"],
                          .vocab = m["vocab"],
                          .tied = m["tied"]});
  REQUIRE(layers);
  return *std::move(layers);
}

/// The corpus and batches of gpt_golden.py, by the same formulas.
struct batches {
  explicit batches(const json& g)
      : seq_len(g["model"]["seq_len"]),
        vocab(g["model"]["vocab"]),
        n_tokens(g["train"]["n_tokens"]),
        global_batch(g["train"]["global_batch"]) {}

  /// Sequences `first` … `first + count − 1` of `step`, from `shift` tokens later: 0 for tokens, 1 for targets.
  tensor take(buffer_pool& memory, std::int64_t step, std::int64_t first, std::int64_t count,
              std::int64_t shift) const {
    auto t = *tensor::make(memory, {dtype::i32, {count, seq_len}});
    for (std::int64_t i = 0; i < count * seq_len; ++i) {
      const auto sequence = step * global_batch + first + i / seq_len;
      const auto at = sequence * seq_len % (n_tokens - seq_len - 1) + i % seq_len + shift;
      t.data<std::int32_t>()[i] = static_cast<std::int32_t>(at * at % vocab);
    }
    return t;
  }

  std::int64_t seq_len, vocab, n_tokens, global_batch;
};

double norm_of(single_process& run, const tensor& t) { return std::sqrt(run.ops().squared_norm(t).value()); }

/// The largest difference as a share of the largest golden value.
double deviation(const tensor& t, const std::vector<double>& expected) {
  const auto got = t.values<float>();
  REQUIRE(got.size() == expected.size());
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference = std::max(difference, std::abs(got[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

Approx near(const json& expected, double relative) { return Approx(expected.get<double>()).epsilon(relative); }

}  // namespace

TEST_CASE("GPT's initial values, activations, loss and gradients are PyTorch's within 1e-5", "[golden]") {
  const auto g = golden(GENERATE("gpt_tied.json", "gpt_untied.json"));
  const auto& expected = g["batch"];
  const batches data(g);
  single_process run(model_of(g["model"]), g["train"]["seed"]);

  const std::int64_t count = expected["sequences"];
  std::vector<tensor> outputs;
  const float loss = run.micro_batch(data.take(run.memory(), 0, 0, count, 0), data.take(run.memory(), 0, 0, count, 1),
                                     1.0F / static_cast<float>(count * data.seq_len), &outputs);
  run.reduce_gradients();

  CHECK(loss == near(expected["loss"], 1e-5));
  CHECK(norm_of(run, outputs[0]) == near(expected["activation_norms"]["embedding"], 1e-5));
  CHECK(norm_of(run, outputs[1]) == near(expected["activation_norms"]["h.0"], 1e-5));
  CHECK(norm_of(run, outputs[2]) == near(expected["activation_norms"]["h.1"], 1e-5));
  CHECK(deviation(outputs[2], expected["activations"]["h.1"]) < 1e-5);

  REQUIRE(run.parameters().size() == expected["parameter_norms"].size());
  for (const auto& [name, p] : run.parameters()) {
    INFO(name);
    CHECK(norm_of(run, p.value) == near(expected["parameter_norms"][name], 1e-6));
    CHECK(norm_of(run, p.gradients[0]) == near(expected["gradient_norms"][name], 1e-5));
  }
  for (const auto& [name, values] : expected["gradients"].items()) {
    INFO(name);
    CHECK(deviation(run.parameters().at(name).gradients[0], values) < 1e-5);
  }
}

TEST_CASE("fifty steps of GPT with AdamW follow PyTorch's loss within 1e-3 at every step", "[golden]") {
  const auto g = golden(GENERATE("gpt_tied.json", "gpt_untied.json"));
  const auto& train = g["train"];
  const batches data(g);
  single_process run(model_of(g["model"]), train["seed"]);

  const std::int64_t micro_batch = train["micro_batch"];
  const float scale = 1.0F / static_cast<float>(data.global_batch * data.seq_len);
  for (std::int64_t step = 0; step < train["steps"]; ++step) {
    INFO("step " << step);
    double loss = 0;
    for (std::int64_t first = 0; first < data.global_batch; first += micro_batch)
      loss += run.micro_batch(data.take(run.memory(), step, first, micro_batch, 0),
                              data.take(run.memory(), step, first, micro_batch, 1), scale);
    const double norm = run.reduce_gradients(), clip = train["clip"];
    CHECK(loss == near(g["curve"]["loss"][static_cast<std::size_t>(step)], 1e-3));
    CHECK(norm == near(g["curve"]["gradient_norm"][static_cast<std::size_t>(step)], 1e-3));
    run.update({.learning_rate = train["lr"],
                .beta1 = train["beta1"],
                .beta2 = train["beta2"],
                .epsilon = train["epsilon"],
                .weight_decay = train["weight_decay"],
                .gradient_scale = static_cast<float>(std::min(1.0, clip / norm)),
                .step = step + 1});
  }
}
