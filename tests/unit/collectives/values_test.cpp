// What each operation computes, bit for bit, at every member: against the plainest reference.

#include <algorithm>

#include "members.hpp"
#include "numbers.hpp"

using namespace troupe;
using namespace troupe::collectives;

namespace {

constexpr std::uint64_t seed = 20;

struct bench_of_a_member {
  explicit bench_of_a_member(const crew& group, std::uint32_t rank)
      : self(group.member(rank)), memory(self->memory()), random(rank) {}

  tensor make(dtype type, std::uint64_t count) {
    return std::move(tensor::make(memory, {type, {static_cast<std::int64_t>(count)}})).value();
  }
  /// A tensor that begins at an odd element of its buffer, filled as member `rank`'s.
  tensor filled(dtype type, std::uint64_t count, std::uint32_t rank, std::uint64_t salt) {
    auto t = make(type, count + 1).slice(1, static_cast<std::int64_t>(count));
    fill(t, rank, salt, 0);
    return t;
  }
  static void fill(const tensor& t, std::uint32_t rank, std::uint64_t salt, std::uint64_t first) {
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(t.elements()); ++i)
      store(t.type(), t.raw(), i, number(seed + salt, rank, first + i));
  }
  /// All members' elements [first, first + count), combined one after the other.
  std::string combined(dtype type, std::uint64_t first, std::uint64_t count, std::uint64_t salt, reduction how) {
    std::string bytes((count)*size_of(type), 0), one(size_of(type), 0);
    for (std::uint64_t i = 0; i < count; ++i) {
      float sum = 0;
      for (std::uint32_t r = 0; r < self->size(); ++r) {
        store(type, one.data(), 0, number(seed + salt, r, first + i));
        const float x = load(type, one.data(), 0);
        sum = r == 0 ? x : how == reduction::sum ? sum + x : std::max(sum, x);
      }
      store(type, bytes.data(), i, sum);
    }
    return bytes;
  }
  static std::string bytes(const tensor& t) { return {static_cast<const char*>(t.raw()), t.bytes()}; }

  std::string reduce(dtype type, std::uint64_t count, reduction how) {
    const auto expected = combined(type, 0, count, count, how);
    for (int repeat = 0; repeat < 2; ++repeat) {
      const auto x = filled(type, count, self->rank(), count);
      dawdle(random);
      if (auto why = expect_ok(self->all_reduce(x, how), "all_reduce"); !why.empty()) return why;
      if (bytes(x) != expected) return "all_reduce: other bits";
    }
    return "";
  }
  std::string scatter(dtype type, std::uint64_t count) {
    const auto whole = filled(type, count * self->size(), self->rank(), count), part = make(type, count);
    const auto before = bytes(whole);
    dawdle(random);
    if (auto why = expect_ok(self->reduce_scatter(whole, part), "reduce_scatter"); !why.empty()) return why;
    if (bytes(whole) != before) return "reduce_scatter: the whole was changed";
    return bytes(part) == combined(type, self->rank() * count, count, count, reduction::sum)
               ? ""
               : "reduce_scatter: other bits";
  }
  std::string gather(dtype type, std::uint64_t count, bool in_place) {
    const auto whole = make(type, count * self->size()), expected = make(type, count * self->size());
    const auto n = static_cast<std::int64_t>(count);
    const auto part = in_place ? whole.slice(self->rank() * n, n) : make(type, count);
    fill(part, self->rank(), count, 0);
    for (std::uint32_t r = 0; r < self->size(); ++r) fill(expected.slice(r * n, n), r, count, 0);
    dawdle(random);
    if (auto why = expect_ok(self->all_gather(part, whole), "all_gather"); !why.empty()) return why;
    return bytes(whole) == bytes(expected) ? "" : "all_gather: other bits";
  }
  std::string spread(dtype type, std::uint64_t count) {
    for (std::uint32_t root = 0; root < self->size(); ++root) {
      const auto x = filled(type, count, self->rank(), count), expected = filled(type, count, root, count);
      dawdle(random);
      if (auto why = expect_ok(self->broadcast(x, root), "broadcast"); !why.empty()) return why;
      if (bytes(x) != bytes(expected)) return "broadcast: other bits";
    }
    return "";
  }

  std::unique_ptr<communicator> self;
  buffer_pool memory;
  std::mt19937 random;
};

// The first thing that goes wrong in a list of checks, with the case it was.
class first_fault {
public:
  void add(const std::string& what, dtype type, std::uint64_t count) {
    if (text_.empty() && !what.empty())
      text_ = what + " (" + std::string(to_string(type)) + " x " + std::to_string(count) + ")";
  }
  const std::string& text() const { return text_; }

private:
  std::string text_;
};

constexpr std::uint64_t sizes[] = {0, 1, 3, 31, 33, 1'001, 4'097, 40'003};
constexpr dtype every_type[] = {dtype::f32, dtype::bf16, dtype::i32, dtype::u8};

}  // namespace

TEST_CASE("reductions have the bits of a sum in the order of ranks, at every member and on a repeat", "[collectives]") {
  const auto size = GENERATE(1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U);
  const crew group(size);
  group.run([&](std::uint32_t rank) {
    bench_of_a_member m(group, rank);
    first_fault fault;
    for (auto type : {dtype::f32, dtype::bf16})
      for (auto count : sizes) {
        fault.add(m.reduce(type, count, reduction::sum), type, count);
        fault.add(m.reduce(type, count, reduction::max), type, count);
        fault.add(m.scatter(type, count), type, count);
      }
    return fault.text();
  });
}

TEST_CASE("gathers and broadcasts deliver every type at every size", "[collectives]") {
  const auto size = GENERATE(1U, 2U, 3U, 8U);
  const crew group(size);
  group.run([&](std::uint32_t rank) {
    bench_of_a_member m(group, rank);
    first_fault fault;
    for (auto type : every_type)
      for (auto count : sizes) {
        fault.add(m.gather(type, count, false), type, count);
        fault.add(m.gather(type, count, true), type, count);
        fault.add(m.spread(type, count), type, count);
      }
    return fault.text();
  });
}

TEST_CASE("a million elements are combined as few are", "[collectives]") {
  const auto size = GENERATE(2U, 3U);
  const crew group(size);
  group.run([&](std::uint32_t rank) {
    bench_of_a_member m(group, rank);
    first_fault fault;
    for (auto type : {dtype::f32, dtype::bf16}) {
      fault.add(m.reduce(type, 1'000'003, reduction::sum), type, 1'000'003);
      fault.add(m.scatter(type, 333'337), type, 333'337);
      fault.add(m.gather(type, 333'337, true), type, 333'337);
      fault.add(m.spread(type, 1'000'003), type, 1'000'003);
    }
    return fault.text();
  });
}

TEST_CASE("bf16 is summed in f32 and rounded once, to the nearest even", "[collectives]") {
  // 1 + 2⁻⁹ + 2⁻⁹ = 1 + 2⁻⁸, half way between 1 and 1 + 2⁻⁷: to the even 1. With 2⁻¹⁴ more: up. Rounded after each
  // addition, all would be 1.
  const std::uint16_t one = 0x3F80, small = 0x3B00, tiny = 0x3880, above_one = 0x3F81;
  const crew group(4);
  group.run([&](std::uint32_t rank) -> std::string {
    bench_of_a_member m(group, rank);
    const auto x = m.make(dtype::bf16, 2);
    auto* v = static_cast<std::uint16_t*>(x.raw());
    v[0] = rank == 0 ? one : rank < 3 ? small : 0;
    v[1] = rank == 0 ? one : rank < 3 ? small : tiny;
    if (auto why = expect_ok(m.self->all_reduce(x), "all_reduce"); !why.empty()) return why;
    return v[0] == one && v[1] == above_one ? "" : "rounded to " + std::to_string(v[0]) + ", " + std::to_string(v[1]);
  });
}

TEST_CASE("a NaN of any member is a NaN in the sum and in the maximum", "[collectives]") {
  const crew group(3);
  group.run([&](std::uint32_t rank) -> std::string {
    bench_of_a_member m(group, rank);
    for (auto how : {reduction::sum, reduction::max}) {
      const auto x = m.make(dtype::f32, 3), narrow = m.make(dtype::bf16, 3);
      for (std::uint32_t i = 0; i < 3; ++i) {
        x.data<float>()[i] = i == rank ? std::nanf("") : 1.0F;
        static_cast<std::uint16_t*>(narrow.raw())[i] = i == rank ? 0x7F81 : 0x3F80;
      }
      for (const auto& t : {x, narrow}) {
        if (auto why = expect_ok(m.self->all_reduce(t, how), "all_reduce"); !why.empty()) return why;
        for (std::uint32_t i = 0; i < 3; ++i)
          if (!std::isnan(load(t.type(), t.raw(), i))) return "a number at " + std::to_string(i);
      }
    }
    return "";
  });
}

TEST_CASE("nobody leaves a barrier before all have come", "[collectives]") {
  const crew group(4);
  const board shared;
  group.run([&](std::uint32_t rank) -> std::string {
    bench_of_a_member m(group, rank);
    for (std::int64_t round = 1; round <= 300; ++round) {
      dawdle(m.random);
      shared.flag(0).fetch_add(1);
      if (auto why = expect_ok(m.self->barrier(), "barrier"); !why.empty()) return why;
      if (shared.flag(0).load() < 4 * round) return "left early in round " + std::to_string(round);
    }
    return "";
  });
}
