#include "gpu_bench.hpp"

using namespace troupe;

namespace {

std::string text_of(const status& done) {
  REQUIRE_FALSE(done);
  CHECK(done.error().code == errc::invalid_argument);
  return done.error().where;
}

}  // namespace

TEST_CASE("a token or target outside its table is reported at the next synchronise in the CPU's words, once", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  auto tokens = bench.indices({2, 300}, 10);
  tokens.values<std::int32_t>()[407] = 10;
  tokens.values<std::int32_t>()[511] = -1;
  const auto there = bench.upload(tokens), table = bench.upload(bench.uniform({10, 4})),
             positions = bench.upload(bench.uniform({300, 4})), y = bench.upload(bench.uniform({2, 300, 4}));
  REQUIRE(bench.gpu->embedding(there, table, positions, y));
  CHECK(text_of(bench.gpu->synchronise()) == "embedding: token 10 at place 407 is outside [0, 10)");
  CHECK(bench.gpu->synchronise());
  REQUIRE(bench.gpu->embedding_backward(y, there, table, positions));
  CHECK(text_of(bench.gpu->synchronise()) == "embedding_backward: token 10 at place 407 is outside [0, 10)");
  const auto logits = bench.upload(bench.uniform({600, 10})), loss = bench.upload(bench.make({1}));
  REQUIRE(bench.gpu->cross_entropy(logits, there, 1, loss));
  CHECK(text_of(bench.gpu->synchronise()) == "cross_entropy: target 10 at place 407 is outside [0, 10)");
}

TEST_CASE("operands that do not fit are refused at once, in the CPU's words", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  const auto four = bench.make({2, 4}), three = bench.make({3});
  for (auto* ops : {bench.cpu.get(), bench.gpu.get()}) {
    CHECK(text_of(ops->add_bias(four, three)) == "add_bias: bias is f32 [3], expected f32 [4]");
    CHECK(text_of(ops->add(four, four, three)) == "add: y is f32 [3], expected f32 [2, 4]");
    CHECK(text_of(ops->fill(tensor(), 1)) == "fill: x is no tensor, expected f32 elements");
    CHECK(text_of(ops->adamw({.step = 0}, four, four, four, four)) == "adamw: step is 0, expected 1 or more");
  }
}

TEST_CASE("a GPU that is not there is refused by its number", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  const auto absent = make_backend({device_kind::cuda, 99});
  REQUIRE_FALSE(absent);
  CHECK(absent.error().where.find("cuda:99: this machine has ") == 0);
}
