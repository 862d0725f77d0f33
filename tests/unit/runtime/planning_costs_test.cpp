#include "../kernels/layer_fixture.hpp"
#include "kernels/layers/gpt.hpp"
#include "runtime/planning/model_cut.hpp"

using namespace troupe;
using namespace troupe::planning;

namespace {

training_plan small_plan() {
  training_plan p;
  p.model = {3, 32, 4, 16, 101, true};
  p.micro_batch = 2;
  p.global_batch = 16;
  return p;
}

gpt_config config_of(const training_plan& p) {
  const auto& m = p.model;
  return {.layers = m.layers,
          .hidden = m.hidden,
          .heads = m.heads,
          .seq_len = m.seq_len,
          .vocab = m.vocab,
          .tied = m.tied,
          .shards = {p.extents.shards, 0, p.rows_are_cut()},
          .recompute_attention = p.recompute == recomputing::selective};
}

std::int64_t elements_of(const layer& l) {
  std::int64_t n = 0;
  for (const auto& p : l.parameters()) n += p.dims.elements();
  return n;
}

void check_piece(const piece_costs& costs, const layer& l, const tensor_spec& input) {
  CAPTURE(l.name());
  CHECK(costs.parameters == elements_of(l));
  CHECK(costs.kept_bytes == static_cast<std::int64_t>(input.bytes() + l.kept_bytes(input)));
  if (l.name() != "embedding") CHECK(costs.forward.flops == Approx(l.forward_flops(input)));
}

}  // namespace

TEST_CASE("parameters, operations and kept bytes are those that the layers declare", "[planning]") {
  auto p = small_plan();
  p.extents.shards = GENERATE(1U, 2U, 4U);
  p.sequence_parallel = GENERATE(false, true);
  p.recompute = GENERATE(recomputing::none, recomputing::selective);
  p.model.tied = GENERATE(false, true);
  CAPTURE(p.extents.shards, p.sequence_parallel, p.recompute, p.model.tied);
  const auto layers = make_gpt(config_of(p));
  REQUIRE(layers);
  const tensor_spec tokens{dtype::i32, {p.micro_batch, p.model.seq_len}};
  const auto activation = layers->front()->output(tokens);
  REQUIRE(activation);
  check_piece(embedding_costs(p), *layers->front(), tokens);
  check_piece(block_costs(p), *(*layers)[1], *activation);
  check_piece(head_costs(p), *layers->back(), *activation);
  CHECK(local_activation_bytes(p) == static_cast<std::int64_t>(activation->bytes()));
}

TEST_CASE("what a block and a head keep between their two backwards is what they hold", "[planning]") {
  const auto p = small_plan();
  const auto layers = make_gpt(config_of(p));
  REQUIRE(layers);
  const shape dims{p.micro_batch, p.model.seq_len, p.model.hidden};
  const auto held_after_input = [&](layer& l, bool is_head) {
    layer_fixture f(l);
    if (is_head) f.target = f.indices({p.micro_batch, p.model.seq_len}, 101);
    auto call = f.call();
    kept_tensors keep;
    REQUIRE(l.forward(call, f.random(dims, "x"), keep));
    REQUIRE(l.backward_input(call, is_head ? tensor() : f.random(dims, "dy"), keep));
    return static_cast<std::int64_t>(keep.bytes());
  };
  CHECK(block_costs(p).kept_after_input_bytes == held_after_input(*(*layers)[1], false));
  CHECK(head_costs(p).kept_after_input_bytes == held_after_input(*layers->back(), true));
}

TEST_CASE("Megatron-LM's blocks keep what its authors say", "[planning]") {
  // Korthikanti et al. 2022, arXiv:2205.05198, table 2; here s 2048, b 1, h 12288, 96 heads, 8 shards.
  auto p = small_plan();
  p.model = {96, 12'288, 96, 2048, 51'200, true};
  p.micro_batch = 1;
  p.numbers = fp16_numbers;
  p.blocks = engine::megatron_2021;
  const std::int64_t sbh = 2048 * 12'288, scores = 5 * 96 * 2048 * std::int64_t{2048};
  CHECK(block_costs(p).kept_bytes == 34 * sbh + scores);
  p.extents.shards = 8;
  p.sequence_parallel = false;
  CHECK(block_costs(p).kept_bytes == 10 * sbh + (24 * sbh + scores) / 8);
  p.recompute = recomputing::full;
  CHECK(block_costs(p).kept_bytes == 2 * sbh);
  p.sequence_parallel = true;
  p.recompute = recomputing::none;
  CHECK(block_costs(p).kept_bytes == (34 * sbh + scores) / 8);
  p.recompute = recomputing::selective;
  CHECK(block_costs(p).kept_bytes == 34 * sbh / 8);
}

TEST_CASE("a trillion parameters take the bytes that a hand calculation gives", "[planning]") {
  training_plan p;
  p.model = {128, 25'600, 160, 2048, 51'200, true};
  p.extents = {64, 6, 8};
  p.micro_batch = 1;
  p.global_batch = 3072;
  p.recompute = recomputing::full;
  p.numbers = bf16_numbers;
  const auto chunks = cut_model(p);
  const auto order = make_schedule("1f1b", {64, p.micro_batches()});
  REQUIRE((chunks && order));
  CHECK(p.micro_batches() == 512);
  const auto middle = memory_of_stage(p, *chunks, *order, 32);
  CHECK(middle.layers == 2);
  // Two blocks, each (12·25600² + 7·25600) / 8 matrix elements and cut biases, and 6·25600 whole ones.
  CHECK(middle.parameters == 2 * (983'040'000 + 22'400 + 153'600));
  CHECK(middle.parameters == 1'966'432'000);
  CHECK(middle.parameter_bytes == 3'932'864'000);  // bf16
  CHECK(middle.gradient_bytes == 7'865'728'000);   // summed in f32
  CHECK(middle.state_bytes == 23'597'184'000);     // f32 copy and two moments
  // In flight: 32 micro-batches with the inputs of two blocks, an eighth of 2048·25600 numbers in bf16 each, and one
  // block computed again: as much for its middle, 3 + 4 + 1 times that for qkv, the wide activation and attention, 20
  // heads' sums of 2048 floats, and 16 bytes of statistics for each of 256 rows.
  const std::int64_t input = 13'107'200, again = input + 8 * input + 20 * 2048 * 4 + 256 * 16;
  CHECK(middle.activation_bytes == 32 * 2 * input + again);
  // The first stage also has 51200/8 rows of the table and 2048 positions of 25600; the last one the table and a norm.
  CHECK(memory_of_stage(p, *chunks, *order, 0).parameters == 1'966'432'000 + 6400 * 25'600LL + 2048 * 25'600LL);
  CHECK(memory_of_stage(p, *chunks, *order, 63).parameters == 1'966'432'000 + 6400 * 25'600LL + 2 * 25'600LL);
}

TEST_CASE("a parameter that one stage uses twice has one value and two gradients", "[planning]") {
  auto p = small_plan();
  const auto chunks = cut_model(p);
  const auto order = make_schedule("1f1b", {1, 8});
  REQUIRE((chunks && order));
  const auto tied = memory_of_stage(p, *chunks, *order, 0);
  CHECK(tied.gradient_bytes - tied.parameter_bytes == 101 * 32 * 4);
  p.model.tied = false;
  const auto untied_chunks = cut_model(p);
  REQUIRE(untied_chunks);
  const auto untied = memory_of_stage(p, *untied_chunks, *order, 0);
  CHECK(untied.gradient_bytes == untied.parameter_bytes);
  CHECK(untied.parameters - tied.parameters == 101 * 32);
}

TEST_CASE("replicas with ZeRO-1 each hold their share of the optimizer's state", "[planning]") {
  auto p = small_plan();
  p.extents.replicas = 4;
  const auto chunks = cut_model(p);
  const auto order = make_schedule("1f1b", {1, p.micro_batches()});
  REQUIRE((chunks && order));
  const auto whole = memory_of_stage(p, *chunks, *order, 0);
  CHECK(whole.state_bytes == 8 * whole.parameters);
  p.split_optimizer = true;
  CHECK(memory_of_stage(p, *chunks, *order, 0).state_bytes == 2 * whole.parameters);
}

TEST_CASE("a schedule's activations are counted in its order", "[planning]") {
  auto p = small_plan();
  p.extents.stages = 3;
  p.split = {1, 3, 1};  // the middle stage has the three blocks
  const auto chunks = cut_model(p);
  REQUIRE(chunks);
  const auto held = [&](const char* name) {
    const auto order = make_schedule(name, {3, 8});
    REQUIRE(order);
    return memory_of_stage(p, *chunks, *order, 1).activation_bytes;
  };
  const auto kept = 3 * block_costs(p).kept_bytes, after = 3 * block_costs(p).kept_after_input_bytes;
  CHECK(held("1f1b") == 2 * kept);
  CHECK(held("gpipe") == 8 * kept);
  CHECK(after > kept);
  CHECK(held("zb-h1") == kept + 2 * after);  // one forward begun, two backwards whose weights are to come
}

TEST_CASE("activations are the bytes that a run held", "[planning]") {
  // Measured of runs of examples/gpt/default.toml with four stages and eight micro-batches of one sequence
  // (docs/performance.md, "Memory between forward and backward").
  training_plan p;
  p.model = {4, 128, 4, 128, 256, true};
  p.extents.stages = 4;
  p.global_batch = 8;
  const auto chunks = cut_model(p);
  REQUIRE(chunks);
  const auto held = [&](const char* name) {
    const auto order = make_schedule(name, {4, 8});
    REQUIRE(order);
    std::vector<std::int64_t> kib;
    for (std::uint32_t i = 0; i < 4; ++i) kib.push_back(memory_of_stage(p, *chunks, *order, i).activation_bytes / 1024);
    return kib;
  };
  CHECK(held("1f1b") == std::vector<std::int64_t>{2578, 1932, 1288, 837});
  CHECK(held("gpipe") == std::vector<std::int64_t>{5156, 5152, 5152, 6696});
}

TEST_CASE("a cut that cannot be is refused in a sentence", "[planning]") {
  auto p = small_plan();
  p.extents.stages = 3;
  p.chunks = 2;
  CHECK(
      cut_model(p).error().where ==
      "3 stages with 2 chunks each are more than the 5 pieces of the model (embedding and head counted); choose fewer "
      "stages or chunks");
  p.chunks = 1;
  p.split = {1, 1, 1};
  CHECK(cut_model(p).error().where == "the split must name 3 chunks with 5 pieces together");
}
