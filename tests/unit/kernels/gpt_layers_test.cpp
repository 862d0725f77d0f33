#include <map>

#include "gradient_check.hpp"
#include "kernels/layers/gpt.hpp"

using namespace troupe;
using reference_gpt::values;

namespace {

constexpr gpt_config small{.layers = 2, .hidden = 12, .heads = 3, .seq_len = 7, .vocab = 11, .tied = true};
constexpr reference_gpt::extents sizes{.batch = 2, .sequence = 5, .hidden = 12, .heads = 3, .vocab = 11};

std::vector<std::int32_t> list(const tensor& t) {
  const auto v = t.values<std::int32_t>();
  return {v.begin(), v.end()};
}

layer_list gpt(const gpt_config& config) {
  auto made = make_gpt(config);
  REQUIRE(made);
  return *std::move(made);
}

std::string refusal(const gpt_config& config) {
  const auto made = make_gpt(config);
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::invalid_argument);
  return made.error().where;
}

}  // namespace

TEST_CASE("the embedding's output and gradients are those of the f64 reference", "[gpt]") {
  const auto layers = gpt(small);
  layer_fixture fixture(*layers.front());
  const auto tokens = fixture.indices({2, 5}, 11);
  check_gradients(fixture, *layers.front(), tokens, GENERATE(true, false),
                  [&](const values&, const auto& p) { return reference_gpt::embedding(list(tokens), p, sizes); });
}

TEST_CASE("a block's output and gradients are those of the f64 reference", "[gpt]") {
  const auto layers = gpt(small);
  layer_fixture fixture(*layers[1]);
  check_gradients(fixture, *layers[1], fixture.random({2, 5, 12}, "x"), GENERATE(true, false),
                  [](const values& x, const auto& p) { return reference_gpt::block(x, p, sizes); });
}

TEST_CASE("the head's loss and gradients are those of the f64 reference", "[gpt]") {
  auto config = small;
  config.tied = GENERATE(true, false);
  const auto layers = gpt(config);
  layer_fixture fixture(*layers.back());
  fixture.target = fixture.indices({2, 5}, 11);
  fixture.loss_scale = 0.125F;
  check_gradients(fixture, *layers.back(), fixture.random({2, 5, 12}, "x"), GENERATE(true, false),
                  [&](const values& x, const auto& p) {
                    return values{reference_gpt::head(x, list(fixture.target), p, 0.125, sizes)};
                  });
}

TEST_CASE("GPT's weight gradients are the same bits however late they are computed", "[gpt]") {
  const auto layers = gpt(small);
  const auto x = [&](layer_fixture& fixture) {
    return [&](int i) { return fixture.random({2, 5, 12}, "x" + std::to_string(i)); };
  };
  SECTION("embedding") {
    layer_fixture fixture(*layers.front());
    check_late_weight_gradients(
        fixture, *layers.front(),
        [&](int i) {
          return fixture.indices({2, 5}, 11 - i);
        },
        x(fixture));
  }
  SECTION("block") {
    layer_fixture fixture(*layers[1]);
    check_late_weight_gradients(fixture, *layers[1], x(fixture), [&](int i) {
      return fixture.random({2, 5, 12}, "dy" + std::to_string(i));
    });
  }
  SECTION("head") {
    layer_fixture fixture(*layers.back());
    fixture.target = fixture.indices({2, 5}, 11);
    check_late_weight_gradients(fixture, *layers.back(), x(fixture), [](int) { return tensor(); });
  }
}

TEST_CASE("a GPT step gives all its memory back and a second one allocates nothing", "[gpt]") {
  const auto layers = gpt(small);
  layer_fixture fixture(*layers[1]);
  const auto before = fixture.memory.stats().bytes_in_use;
  const auto step = [&] {
    auto call = fixture.call();
    kept_tensors keep;
    REQUIRE(layers[1]->forward(call, fixture.random({2, 5, 12}, "x"), keep));
    REQUIRE(layers[1]->backward_input(call, fixture.random({2, 5, 12}, "dy"), keep));
    REQUIRE(layers[1]->backward_weight(call, keep));
  };
  step();
  CHECK(fixture.memory.stats().bytes_in_use == before);
  const auto allocations = fixture.memory.stats().device_allocations;
  step();
  CHECK(fixture.memory.stats().device_allocations == allocations);
}

TEST_CASE("GPT-2 small has the 124 439 808 parameters of the original", "[gpt]") {
  std::map<std::string, shape> unique;
  for (const auto& l : gpt({.layers = 12, .hidden = 768, .heads = 12, .seq_len = 1024, .vocab = 50257, .tied = true}))
    for (const auto& p : l->parameters()) {
      const auto [known, added] = unique.emplace(p.name, p.dims);
      CHECK((added || (known->first == "wte.weight" && known->second == p.dims)));
    }
  std::int64_t count = 0;
  for (const auto& [name, dims] : unique) count += dims.elements();
  CHECK(count == 124'439'808);
}

TEST_CASE("an untied head brings its own table", "[gpt]") {
  auto config = small;
  config.tied = false;
  const auto table = gpt(config).back()->parameters().back();
  CHECK(table.name == "lm_head.weight");
  CHECK(table.dims == shape{11, 12});
  CHECK(gpt(small).back()->parameters().back().name == "wte.weight");
}

TEST_CASE("matrices decay, norms and biases do not", "[gpt]") {
  for (const auto& l : gpt(small))
    for (const auto& p : l->parameters()) {
      INFO(p.name);
      CHECK(p.decay == (p.dims.rank() == 2));
    }
}

TEST_CASE("a model's impossible sizes are refused with the key to change", "[gpt]") {
  CHECK(refusal({.hidden = 128, .heads = 3}) == "model.heads is 3, which does not divide model.hidden, 128");
  CHECK(refusal({.layers = 0}) == "model.layers is 0; it must be 1 to 16777216");
  CHECK(refusal({.vocab = -1}).starts_with("model.vocab is -1"));
  CHECK(refusal({.seq_len = 0}).starts_with("model.seq_len is 0"));
  CHECK(refusal({.hidden = std::int64_t{1} << 40}).starts_with("model.hidden is"));
}

TEST_CASE("a sequence longer than the model's is refused by every layer", "[gpt]") {
  const auto layers = gpt(small);
  const auto tokens = layers.front()->output({dtype::i32, {2, 8}});
  REQUIRE_FALSE(tokens);
  CHECK(tokens.error().where ==
        "embedding: the input is i32 [2, 8], not tokens i32 [B, S] with S up to model.seq_len = 7");
  CHECK_FALSE(layers[1]->output({dtype::f32, {2, 8, 12}}));
  CHECK_FALSE(layers.back()->output({dtype::f32, {2, 8, 12}}));
  CHECK_FALSE(layers[1]->output({dtype::f32, {2, 7, 13}}));
  CHECK(layers[1]->output({dtype::f32, {2, 7, 12}}));
}

TEST_CASE("a token or target outside the vocabulary is refused, not read", "[gpt]") {
  const auto layers = gpt(small);
  kept_tensors keep;
  SECTION("token") {
    layer_fixture fixture(*layers.front());
    const auto tokens = fixture.indices({2, 5}, 11);
    tokens.values<std::int32_t>()[3] = 11;
    auto call = fixture.call();
    const auto y = layers.front()->forward(call, tokens, keep);
    REQUIRE_FALSE(y);
    CHECK(y.error().code == errc::invalid_argument);
  }
  SECTION("target") {
    layer_fixture fixture(*layers.back());
    fixture.target = fixture.indices({2, 5}, 11);
    fixture.target.values<std::int32_t>()[0] = -1;
    auto call = fixture.call();
    const auto loss = layers.back()->forward(call, fixture.random({2, 5, 12}, "x"), keep);
    REQUIRE_FALSE(loss);
    CHECK(loss.error().code == errc::invalid_argument);
  }
  SECTION("targets of another shape") {
    layer_fixture fixture(*layers.back());
    fixture.target = fixture.indices({5, 2}, 11);
    auto call = fixture.call();
    const auto loss = layers.back()->forward(call, fixture.random({2, 5, 12}, "x"), keep);
    REQUIRE_FALSE(loss);
    CHECK(loss.error().where == "head: the target is i32 [5, 2], not i32 [2, 5]");
  }
}

TEST_CASE("a block's cost is its matrix products and the causal half of attention", "[gpt]") {
  const auto block = std::move(gpt(small)[1]);
  // 10 tokens through 12 H² weights; each attends to 3 positions on average, for scores and for the weighted sum.
  CHECK(block->forward_flops({dtype::f32, {2, 5, 12}}) == Approx(2.0 * 10 * (12 * 144 + 2 * 3 * 12)));
}
