#include "actors/schedule/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "actors/schedule/replay.hpp"

namespace troupe {

namespace {

// How often each pass ran, or may have run, of one chunk and micro-batch.
struct passes {
  std::array<std::uint8_t, 4> count{};
  std::uint8_t& of(pass what) { return count[static_cast<std::size_t>(what)]; }
  bool forward() const { return count[0] == 1; }
  bool gradient_of_input() const { return count[1] + count[2] == 1; }
  bool gradient_of_weights() const { return count[1] + count[3] == 1; }
};

class proof {
public:
  explicit proof(const schedule& s) : s_(s), done_(s, {}) {}

  status check_shape() const {
    const std::size_t micro_batches = s_.micro_batches, stages = s_.stages;
    if (stages == 0 || micro_batches == 0 || s_.chunks == 0)
      return invalid("a schedule without stages, micro-batches or chunks");
    if (s_.placement == chunk_placement::v_shape && s_.chunks != 2) return invalid("a V has two chunks a stage");
    if (s_.actions.size() != stages)
      return invalid(fmt::format("{} stages, but {} lists of actions", stages, s_.actions.size()));
    if (!s_.most_in_flight.empty() && s_.most_in_flight.size() != stages)
      return invalid(fmt::format("{} stages, but {} bounds of activations", stages, s_.most_in_flight.size()));
    return {};
  }

  // Each pass that `s` has must come once: this alone needs no order.
  status check_counts() {
    for (std::uint32_t i = 0; i < s_.stages; ++i)
      for (const auto& a : s_.actions[i]) {
        if (a.micro_batch >= s_.micro_batches || a.chunk >= s_.chunks)
          return invalid(fmt::format("stage {} has {}, but the schedule has {} micro-batches and {} chunks a stage", i,
                                     name(a), s_.micro_batches, s_.chunks));
        if (s_.forward_only && a.what != pass::forward)
          return invalid(fmt::format("stage {} has {} in a schedule of forwards", i, name(a)));
        auto& cell = at(i, a);
        if (cell.of(a.what) == 1) return invalid(fmt::format("stage {} has {} twice", i, name(a)));
        cell.of(a.what) = 1;
      }
    for (std::uint32_t i = 0; i < s_.stages; ++i)
      for (std::uint16_t c = 0; c < s_.chunks; ++c)
        for (std::uint32_t m = 0; m < s_.micro_batches; ++m) TROUPE_CHECK(check_complete(i, m, c));
    return {};
  }

  status check_order() {
    done_ = per_micro_batch<passes>(s_, {});
    const auto cursor = replay(s_, [&](std::uint32_t stage, const action& a) {
      if (missing(stage, a)) return false;
      at(stage, a).of(a.what) = 1;
      return true;
    });
    for (std::uint32_t i = 0; i < s_.stages; ++i)
      if (cursor[i] < s_.actions[i].size()) return stuck(i, cursor[i]);
    return {};
  }

  status check_memory() const {
    for (std::uint32_t i = 0; i < s_.most_in_flight.size(); ++i)
      if (const auto peak = peak_in_flight(s_, i); peak > s_.most_in_flight[i])
        return invalid(fmt::format("stage {} holds {} activations at once, more than the {} that {} declares", i, peak,
                                   s_.most_in_flight[i], s_.name));
    return {};
  }

private:
  struct input {
    std::uint32_t stage;
    action what;
  };

  std::string name(const action& a) const { return to_string(a, s_.chunks); }
  passes& at(std::uint32_t stage, const action& a) { return done_.at(s_.virtual_stage(stage, a.chunk), a.micro_batch); }

  status check_complete(std::uint32_t stage, std::uint32_t m, std::uint16_t c) {
    const auto& cell = at(stage, {pass::forward, m, c});
    const auto lacks = [&](pass what) { return invalid(fmt::format("stage {} lacks {}", stage, name({what, m, c}))); };
    if (!cell.forward()) return lacks(pass::forward);
    if (s_.forward_only) return {};
    const action whole{pass::backward, m, c}, half{pass::backward_input, m, c}, rest{pass::backward_weight, m, c};
    if (cell.count[1] == 1 && cell.count[2] + cell.count[3] > 0)
      return invalid(
          fmt::format("stage {} has {}, and {} too", stage, name(whole), name(cell.count[2] == 1 ? half : rest)));
    if (!cell.gradient_of_input()) return lacks(cell.count[3] == 1 ? pass::backward_input : pass::backward);
    if (!cell.gradient_of_weights()) return lacks(pass::backward_weight);
    return {};
  }

  // What must still end before `a` may start, if anything.
  std::optional<input> missing(std::uint32_t stage, const action& a) {
    const auto v = s_.virtual_stage(stage, a.chunk);
    const auto& here = done_.at(v, a.micro_batch);
    const auto neighbour = [&](std::uint32_t virtual_stage, pass what) {
      const auto place = place_of(s_, virtual_stage);
      return input{place.stage, {what, a.micro_batch, place.chunk}};
    };
    switch (a.what) {
      case pass::forward:
        if (v > 0 && !done_.at(v - 1, a.micro_batch).forward()) return neighbour(v - 1, pass::forward);
        break;
      case pass::backward:
      case pass::backward_input:
        if (!here.forward()) return input{stage, {pass::forward, a.micro_batch, a.chunk}};
        if (v + 1 < s_.virtual_stages() && !done_.at(v + 1, a.micro_batch).gradient_of_input())
          return neighbour(v + 1, pass::backward_input);
        break;
      case pass::backward_weight:
        if (!here.gradient_of_input()) return input{stage, {pass::backward_input, a.micro_batch, a.chunk}};
        break;
    }
    return {};
  }

  status stuck(std::uint32_t stage, std::size_t index) {
    const auto& a = s_.actions[stage][index];
    auto needed = *missing(stage, a);
    // Where the gradient of the input comes as part of a whole backward, that is its name.
    const auto& list = s_.actions[needed.stage];
    if (needed.what.what == pass::backward_input && std::find(list.begin(), list.end(), needed.what) == list.end())
      needed.what.what = pass::backward;
    return invalid(fmt::format("stage {} can never run {} (its action {}): {} of stage {} does not come before it",
                               stage, name(a), index, name(needed.what), needed.stage));
  }

  const schedule& s_;
  per_micro_batch<passes> done_;
};

}  // namespace

status validate(const schedule& s) {
  proof p(s);
  TROUPE_CHECK(p.check_shape());
  TROUPE_CHECK(p.check_counts());
  TROUPE_CHECK(p.check_order());
  return p.check_memory();
}

}  // namespace troupe
