#include "kernels/ops/cpu/cpu_backend.hpp"
#include "op_bench.hpp"

using namespace troupe;

namespace {

struct attention_case {
  std::int64_t batch, sequence, hidden, heads;
  tensor qkv, dout, out, log_sum, dqkv;
  attention_case(op_bench& bench, std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t n, float reach = 1.5F)
      : batch(b),
        sequence(s),
        hidden(h),
        heads(n),
        qkv(bench.uniform({b, s, 3 * h}, -reach, reach)),
        dout(bench.uniform({b, s, h})),
        out(bench.filled({b, s, h}, 77)),  // all of it must be overwritten
        log_sum(bench.filled({b, n, s}, 77)),
        dqkv(bench.filled({b, s, 3 * h}, 77)) {
    run(*bench.ops);
  }
  void run(backend& ops) const {
    REQUIRE(ops.attention(qkv, heads, out, log_sum));
    REQUIRE(ops.attention_backward(dout, qkv, out, log_sum, heads, dqkv));
  }
  reference::array expected(const reference::array& at) const {
    return reference::attention(at, static_cast<std::size_t>(batch), static_cast<std::size_t>(sequence),
                                static_cast<std::size_t>(hidden), static_cast<std::size_t>(heads));
  }
};

// Host memory that counts: what is out now, the most ever out, and how often it was asked.
class counting_memory final : public memory_source {
public:
  device where() const noexcept override { return {}; }
  result<void*> allocate(std::size_t bytes) override {
    ++allocations;
    peak = std::max(peak, in_use += bytes);
    return host_memory()->allocate(bytes);
  }
  void release(void* memory, std::size_t bytes) noexcept override {
    in_use -= bytes;
    host_memory()->release(memory, bytes);
  }
  std::size_t in_use = 0, peak = 0, allocations = 0;
};

}  // namespace

TEST_CASE("attention equals its f64 definition, whether or not the sequence fills its blocks", "[ops]") {
  op_bench bench;
  const std::int64_t heads = GENERATE(1, 2, 3, 4), sequence = GENERATE(1, 2, 63, 64, 65, 131, 200);
  const std::int64_t batch = GENERATE(1, 2);
  CAPTURE(heads, sequence, batch);
  const attention_case c(bench, batch, sequence, 12, heads);
  CHECK(deviation(c.out, c.expected(widen(c.qkv))) < 2e-6);
}

TEST_CASE("attention's backward equals the central differences of the f64 forward", "[ops]") {
  op_bench bench;
  const auto [batch, sequence, hidden, heads] = GENERATE(table<std::int64_t, std::int64_t, std::int64_t, std::int64_t>(
      {{1, 1, 3, 1}, {2, 5, 4, 2}, {1, 9, 9, 3}, {1, 7, 20, 4}, {1, 67, 4, 2}, {1, 130, 2, 1}}));
  CAPTURE(batch, sequence, hidden, heads);
  const attention_case c(bench, batch, sequence, hidden, heads);
  const auto loss = [&](const reference::array& at) { return reference::weighted(widen(c.dout), c.expected(at)); };
  CHECK(deviation(c.dqkv, reference::gradient(loss, widen(c.qkv))) < 5e-6);
}

TEST_CASE("a query sees no later key: changing the future changes no bit of the past", "[ops]") {
  op_bench bench;
  attention_case c(bench, 1, 150, 8, 2);
  const auto before = bench.duplicate(c.out);
  for (auto& v : c.qkv.slice(100 * 24, 50 * 24).values<float>()) v = 9.0F;
  c.run(*bench.ops);
  CHECK(bits(c.out.slice(0, 100 * 8)) == bits(before.slice(0, 100 * 8)));
  CHECK(bits(c.out.slice(100 * 8, 8)) != bits(before.slice(100 * 8, 8)));
}

TEST_CASE("attention stays finite where its scores are far beyond the exponential's range", "[ops]") {
  op_bench bench;
  const attention_case c(bench, 1, 70, 8, 1, 60.0F);
  for (float v : c.out.values<float>()) REQUIRE(std::isfinite(v));
  for (float v : c.dqkv.values<float>()) REQUIRE(std::isfinite(v));
}

TEST_CASE("a head's and a sequence's result have the same bits alone and among others", "[ops]") {
  op_bench bench;
  const attention_case both(bench, 2, 90, 8, 2);
  attention_case second(bench, 1, 90, 8, 2);
  REQUIRE(bench.ops->copy(both.qkv.slice(90 * 24, 90 * 24), second.qkv));
  REQUIRE(bench.ops->copy(both.dout.slice(90 * 8, 90 * 8), second.dout));
  second.run(*bench.ops);
  CHECK(bits(second.out) == bits(both.out.slice(90 * 8, 90 * 8)));
  CHECK(bits(second.dqkv) == bits(both.dqkv.slice(90 * 24, 90 * 24)));
}

TEST_CASE("attention's scratch grows neither with heads nor with batch, and a repeat allocates nothing", "[ops]") {
  op_bench bench;
  const auto scratch_of = [&](std::int64_t batch, std::int64_t heads) {
    const auto memory = std::make_shared<counting_memory>();
    {
      cpu_backend ops(memory);
      const attention_case c(bench, batch, 256, 64, heads);
      c.run(ops);
      const auto allocations = memory->allocations;
      c.run(ops);
      CHECK(memory->allocations == allocations);
    }
    CHECK(memory->in_use == 0);
    return memory->peak;
  };
  const auto one = scratch_of(1, 1);
  CHECK(one > 0);
  CHECK(one <= 64 * (2 * 256 + 1) * sizeof(float));
  CHECK(scratch_of(4, 1) == one);
  CHECK(scratch_of(1, 8) == one);
  CHECK(scratch_of(3, 4) == one);
}

TEST_CASE("attention names the operand that does not fit", "[ops]") {
  op_bench bench;
  const attention_case c(bench, 2, 4, 6, 2);
  CHECK(text_of(bench.ops->attention(c.out.reshaped({2, 6, 4}), 2, c.out, c.log_sum)) ==
        "attention: qkv is f32 [2, 6, 4], expected f32 [B, S, 3·H]");
  CHECK(text_of(bench.ops->attention(c.qkv, 4, c.out, c.log_sum)) ==
        "attention: 4 heads do not divide the hidden size 6");
  CHECK(text_of(bench.ops->attention(c.qkv, 3, c.out, c.log_sum)) ==
        "attention: log_sum is f32 [2, 2, 4], expected f32 [2, 3, 4]");
  CHECK(text_of(bench.ops->attention_backward(c.qkv, c.qkv, c.out, c.log_sum, 2, c.dqkv)) ==
        "attention_backward: dout is f32 [2, 4, 18], expected f32 [2, 4, 6]");
}
