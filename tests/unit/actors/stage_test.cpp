#include "actors/stage/stage.hpp"

#include <algorithm>
#include <map>

#include "pipeline_by_hand.hpp"

using namespace troupe;

namespace {

// One step through all stages, micro-batch by micro-batch; `split_backward` runs all input halves before the weight
// halves.
std::vector<float> run_step(tiny_gpt& gpt, std::uint64_t step, bool split_backward = false) {
  std::vector<float> losses;
  for (std::uint32_t mb = 0; mb < gpt.micro_batches; ++mb) {
    tensor at = gpt.tokens(step, mb, 0);
    for (auto& s : gpt.stages) {
      auto y = s.forward(mb, std::move(at), s.last() ? gpt.tokens(step, mb, 1) : tensor());
      REQUIRE(y);
      at = std::move(*y);
    }
    losses.push_back(0);
    REQUIRE(gpt.stages.back().read_loss(at, losses.back()));
  }
  for (std::uint32_t mb = 0; mb < gpt.micro_batches; ++mb) {
    tensor at;
    for (auto s = gpt.stages.rbegin(); s != gpt.stages.rend(); ++s) {
      auto dx = split_backward ? s->backward_input(mb, std::move(at)) : s->backward(mb, std::move(at));
      REQUIRE(dx);
      at = std::move(*dx);
    }
  }
  if (split_backward)
    for (std::uint32_t mb = 0; mb < gpt.micro_batches; ++mb)
      for (auto& s : gpt.stages) REQUIRE(s.backward_weight(mb));
  return losses;
}

void exchange_shared(tiny_gpt& gpt) {
  for (auto& s : gpt.stages) {
    std::vector<tensor> awaited;
    for (auto use : s.awaited_uses())
      for (auto& other : gpt.stages)
        for (const auto& offered : other.shared_uses())
          if (offered.use == use) awaited.push_back(offered.gradient);
    REQUIRE(awaited.size() == s.awaited_uses().size());
    REQUIRE(s.combine_shared(awaited));
  }
}

std::map<std::size_t, double> norms(tiny_gpt& gpt) {
  std::map<std::size_t, double> all;
  for (auto& s : gpt.stages) {
    const auto part = s.squared_norms();
    REQUIRE(part);
    for (const auto& n : *part) CHECK(all.emplace(n.parameter, n.squared).second);  // each counted once
  }
  return all;
}

bool same_bits(const tensor& a, const tensor& b) {
  return a.spec() == b.spec() &&
         std::equal(static_cast<const std::byte*>(a.raw()), static_cast<const std::byte*>(a.raw()) + a.bytes(),
                    static_cast<const std::byte*>(b.raw()));
}

}  // namespace

TEST_CASE("losses, norms and parameters have the same bits for every cut of the model", "[stage]") {
  const bool tied = GENERATE(true, false);
  const auto cut = GENERATE(values<stage_split>({{2, 2}, {1, 3}, {3, 1}, {1, 2, 1}, {1, 1, 1, 1}}));
  tiny_gpt whole({4}, tied), parts(cut, tied);
  for (std::uint64_t step = 0; step < 3; ++step) {
    CHECK(run_step(whole, step) == run_step(parts, step));
    exchange_shared(whole);
    exchange_shared(parts);
    CHECK(norms(whole) == norms(parts));
    const update_rule rule{step, 1e-2F, 0.5F};
    for (auto* gpt : {&whole, &parts})
      for (auto& s : gpt->stages) REQUIRE(s.apply(rule));
  }
  for (auto& s : parts.stages)
    for (const auto& p : s.parameters()) {
      CAPTURE(p.spec.name);
      CHECK(same_bits(p.value, whole.stages[0].parameters()[p.parameter].value));
      const auto i = static_cast<std::size_t>(&p - s.parameters().data());
      CHECK(same_bits(s.pieces()[i].moment2, whole.stages[0].pieces()[p.parameter].moment2));
    }
}

TEST_CASE("the two halves of a backward give the bits of the whole one", "[stage]") {
  tiny_gpt one({2, 2}), halves({2, 2});
  run_step(one, 0, false);
  run_step(halves, 0, true);
  exchange_shared(one);
  exchange_shared(halves);
  CHECK(norms(one) == norms(halves));
}

TEST_CASE("tied embeddings on two stages stay equal bit for bit", "[stage]") {
  tiny_gpt gpt({2, 2});
  for (std::uint64_t step = 0; step < 5; ++step) {
    run_step(gpt, step);
    exchange_shared(gpt);
    for (auto& s : gpt.stages) REQUIRE(s.apply({step, 1e-2F, 1}));
  }
  REQUIRE(gpt.stages[0].parameters()[0].spec.name == "wte.weight");
  const auto& last = gpt.stages[1].parameters();
  const auto head = std::find_if(last.begin(), last.end(), [](const auto& p) { return p.spec.name == "wte.weight"; });
  REQUIRE(head != last.end());
  CHECK(same_bits(gpt.stages[0].parameters()[0].value, head->value));
}

TEST_CASE("kept tensors are what the layers predict, and gone after the backward", "[stage]") {
  tiny_gpt gpt({2, 2});
  auto& s = gpt.stages[0];
  auto y = s.forward(0, gpt.tokens(0, 0, 0), {});
  REQUIRE(y);
  CHECK(s.kept_bytes() == s.predicted_kept_bytes());
  tensor dy = *y;
  REQUIRE(s.backward(0, std::move(dy)));
  CHECK(s.kept_bytes() == 0);
}

TEST_CASE("a steady state allocates nothing from the device", "[stage]") {
  tiny_gpt gpt({4});
  const auto step = [&](std::uint64_t k) {
    run_step(gpt, k);
    exchange_shared(gpt);
    REQUIRE(gpt.stages[0].apply({k, 1e-2F, 1}));
  };
  step(0);
  step(1);
  const auto before = gpt.stages[0].memory().stats().device_allocations;
  for (std::uint64_t k = 2; k < 6; ++k) step(k);
  CHECK(gpt.stages[0].memory().stats().device_allocations == before);
}
