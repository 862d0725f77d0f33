// Each layer that is cut over tensor shards against its uncut twin: outputs, gradients of inputs and of parameters.

#include <cmath>
#include <functional>
#include <thread>

#include "kernels/collectives/host_group.hpp"
#include "kernels/layers/gpt.hpp"
#include "layer_fixture.hpp"

using namespace troupe;

namespace {

constexpr std::int64_t batch = 2, sequence = 6, hidden = 24, vocabulary = 11;

gpt_config config_of(std::uint32_t size, std::uint32_t rank, bool rows_cut, bool recompute = false) {
  gpt_config c{1, hidden, 6, sequence, vocabulary, true};
  c.shards = {size, rank, rows_cut};
  c.recompute_attention = recompute;
  return c;
}

tensor host(buffer_pool& memory, tensor_spec spec) { return std::move(tensor::make(memory, spec)).value(); }

// What one pass through a layer leaves behind.
struct outcome {
  std::vector<float> y, dx;
  std::vector<std::vector<float>> gradients;  // [parameter], this shard's
  std::vector<parameter_spec> specs;
  std::size_t peak_bytes = 0, kept_bytes = 0, predicted_kept_bytes = 0;
  std::string error;
};

std::vector<float> list(const tensor& t) {
  const auto v = t.values<float>();
  return {v.begin(), v.end()};
}

// One shard's forward and backward of layer `index`: the same whole tensors at every shard, of which it takes its own.
status pass(outcome& out, std::size_t index, const gpt_config& config, communicator* group) {
  TROUPE_TRY(auto layers, make_gpt(config));
  auto& l = *layers[index];
  TROUPE_TRY(auto ops, group ? make_cpu_backend(group->memory()) : make_cpu_backend());
  buffer_pool memory(ops->memory());
  std::vector<parameter_view> views;
  out.specs = l.parameters();
  for (const auto& p : out.specs) {
    views.push_back({host(memory, {dtype::f32, p.dims}), host(memory, {dtype::f32, p.dims})});
    TROUPE_CHECK(ops->fill_uniform(views.back().value, 1, p.name, 0.5F, p.slice));
    TROUPE_CHECK(ops->fill(views.back().gradient, 0));
  }
  const bool first = index == 0, last = index + 1 == layers.size();
  const auto tokens = host(memory, {dtype::i32, {batch, sequence}});
  for (std::int32_t i = 0; auto& t : tokens.values<std::int32_t>()) t = (7 * i++) % vocabulary;
  const auto whole = host(memory, {dtype::f32, {batch, sequence, hidden}}), whole_dy = host(memory, whole.spec());
  TROUPE_CHECK(ops->fill_uniform(whole, 2, "x", 1));
  TROUPE_CHECK(ops->fill_uniform(whole_dy, 2, "dy", 1));
  const auto x = first ? tokens : own_rows(config.shards, whole);
  const auto dy = last ? tensor() : own_rows(config.shards, whole_dy);
  const tensor no_target;
  layer_call call{*ops, memory, views, last ? tokens : no_target, 0.25F, group};
  kept_tensors keep;
  memory.reset_peak();
  TROUPE_TRY(const auto y, l.forward(call, x, keep));
  out.y = list(y);
  out.kept_bytes = keep.bytes();
  out.predicted_kept_bytes = l.kept_bytes(x.spec());
  TROUPE_TRY(const auto dx, l.backward_input(call, dy, keep));
  if (dx) out.dx = list(dx);
  TROUPE_CHECK(l.backward_weight(call, keep));
  out.peak_bytes = memory.stats().peak_bytes_in_use;
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (out.specs[i].partial_gradient) TROUPE_CHECK(group->all_reduce(views[i].gradient));
    out.gradients.push_back(list(views[i].gradient));
  }
  if (keep.bytes() != 0) return invalid("kept tensors are left");
  return {};
}

outcome uncut(std::size_t index) {
  outcome out;
  const auto done = pass(out, index, config_of(1, 0, false), nullptr);
  REQUIRE(done);
  return out;
}

std::vector<outcome> cut(std::size_t index, std::uint32_t size, bool rows_cut, bool recompute = false) {
  thread_group together(size);
  std::vector<outcome> out(size);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      auto group = together.join({rank, size, 1, std::chrono::milliseconds(20'000)});
      if (!group) {
        out[rank].error = to_string(group.error());
        return;
      }
      if (auto done = pass(out[rank], index, config_of(size, rank, rows_cut, recompute), group->get()); !done) {
        out[rank].error = to_string(done.error());
        (*group)->abort();
      }
    });
  for (auto& t : threads) t.join();
  for (const auto& o : out) REQUIRE(o.error.empty());
  return out;
}

// Joins what shards hold: rows one behind the other where they are cut, else they must all have the same.
std::vector<float> joined(const std::vector<outcome>& shards, std::vector<float> outcome::*which, bool rows_cut) {
  std::vector<float> all;
  for (const auto& s : shards) {
    if (rows_cut) {
      all.insert(all.end(), (s.*which).begin(), (s.*which).end());
    } else {
      CHECK(s.*which == shards[0].*which);
      all = s.*which;
    }
  }
  return all;
}

std::vector<float> joined_gradient(const std::vector<outcome>& shards, std::size_t parameter, std::size_t elements) {
  std::vector<float> whole(elements, std::nanf(""));
  for (const auto& s : shards) {
    const auto& slice = s.specs[parameter].slice;
    for (std::size_t i = 0; i < s.gradients[parameter].size(); ++i) {
      const auto at = slice(static_cast<std::int64_t>(i));
      if (at >= slice.end || at >= static_cast<std::int64_t>(elements)) {
        CHECK(s.gradients[parameter][i] == 0);  // padding
        continue;
      }
      whole[static_cast<std::size_t>(at)] = s.gradients[parameter][i];
    }
  }
  return whole;
}

double deviation(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    REQUIRE(std::isfinite(d));
    difference += d * d;
    size += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(difference / std::max(size, 1e-30));
}

constexpr std::size_t embedding = 0, block = 1, head = 2;

}  // namespace

TEST_CASE("each layer cut over tensor shards computes what its uncut twin does", "[tensor_parallel]") {
  const auto index = GENERATE(embedding, block, head);
  const auto size = GENERATE(2U, 3U, 6U);
  const auto rows_cut = GENERATE(false, true);
  CAPTURE(index, size, rows_cut);
  const auto expected = uncut(index);
  const auto shards = cut(index, size, rows_cut);
  CHECK(deviation(joined(shards, &outcome::y, rows_cut && index != head), expected.y) < 1e-6);
  if (index != embedding) CHECK(deviation(joined(shards, &outcome::dx, rows_cut), expected.dx) < 2e-6);
  for (std::size_t p = 0; p < expected.gradients.size(); ++p) {
    CAPTURE(expected.specs[p].name);
    CHECK(deviation(joined_gradient(shards, p, expected.gradients[p].size()), expected.gradients[p]) < 2e-6);
  }
}

TEST_CASE("the embedding cut over tensor shards has the bits of the uncut one", "[tensor_parallel]") {
  const auto size = GENERATE(2U, 3U);
  CHECK(joined(cut(embedding, size, false), &outcome::y, false) == uncut(embedding).y);
}

TEST_CASE("what a cut layer keeps is what it says", "[tensor_parallel]") {
  const auto index = GENERATE(embedding, block, head);
  const auto rows_cut = GENERATE(false, true);
  const auto recompute = GENERATE(false, true);
  CAPTURE(index, rows_cut, recompute);
  for (const auto& s : cut(index, 2, rows_cut, recompute)) {
    const auto input = index == embedding ? 4U * batch * sequence : 4U * batch * sequence * hidden / (rows_cut ? 2 : 1);
    CHECK(s.kept_bytes == s.predicted_kept_bytes + input);
  }
}

TEST_CASE("attention that is computed again in the backward changes no bit", "[tensor_parallel]") {
  const auto kept = cut(block, 2, true, false), again = cut(block, 2, true, true);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(kept[rank].y == again[rank].y);
    CHECK(kept[rank].dx == again[rank].dx);
    CHECK(kept[rank].gradients == again[rank].gradients);
  }
}

TEST_CASE("sequence parallelism keeps fewer bytes of a block", "[tensor_parallel]") {
  const auto whole_rows = cut(block, 2, false), own = cut(block, 2, true);
  CHECK(own[0].kept_bytes < whole_rows[0].kept_bytes);
}
