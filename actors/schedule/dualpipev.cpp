#include <deque>

#include "actors/schedule/action_list.hpp"
#include "actors/schedule/generators.hpp"

namespace troupe {

namespace {

constexpr std::uint16_t down = 0, up = 1;

// Stage i of p. Gradients of weights that were put off are computed in the order of their gradients of inputs.
class dualpipev_stage {
public:
  dualpipev_stage(std::vector<action>& to, std::uint32_t i, std::uint32_t p, std::uint32_t m)
      : list_(to), i_(i), behind_(p - 1 - i), both_(m + i + 1 - 2 * p) {}

  void add() {
    warm_up();
    steady_state();
    cool_down();
  }

private:
  void warm_up() {
    for (std::uint32_t n = 0; n < 2 * behind_; ++n) list_.forward(down);
    for (std::uint32_t n = 0; n < i_ + 1; ++n) {
      list_.forward(down);
      list_.forward(up);
    }
    for (std::uint32_t n = 0; n < behind_; ++n) {
      list_.split_backward(up);
      list_.forward(up);
    }
  }
  // The pairs of a forward and a backward that a device may overlap.
  void steady_state() {
    for (std::uint32_t n = 0; n < both_; ++n) {
      list_.forward(down);
      list_.backward(up);
      list_.forward(up);
      list_.backward(down);
    }
    for (std::uint32_t n = 0; n < behind_; ++n) {
      list_.backward(up);
      list_.forward(up);
      list_.backward(down);
    }
  }
  // The second half of the paired backwards is split, and the gradients of weights fill the drain.
  void cool_down() {
    const auto pairs = i_ + 1;
    for (std::uint32_t n = 0; n < 2 * pairs; ++n) {
      const auto chunk = n % 2 == 0 ? up : down;
      if (n < pairs) {
        list_.backward(chunk);
      } else {
        put_off(chunk);
      }
    }
    for (std::uint32_t n = 0; n < behind_; ++n) {
      weight();
      put_off(down);
    }
    while (!waiting_.empty()) weight();
  }
  void put_off(std::uint16_t chunk) {
    list_.backward_input(chunk);
    waiting_.push_back(chunk);
  }
  void weight() {
    list_.backward_weight(waiting_.front());
    waiting_.pop_front();
  }

  action_list list_;
  std::uint32_t i_, behind_, both_;
  std::deque<std::uint16_t> waiting_;
};

}  // namespace

schedule make_dualpipev(schedule_shape shape) {
  const auto p = shape.stages, wanted = shape.micro_batches;
  shape.micro_batches = std::max(wanted, 2 * p);
  auto s = empty_schedule("dualpipev", shape, 2);
  s.placement = chunk_placement::v_shape;
  for (std::uint32_t i = 0; i < p; ++i) {
    dualpipev_stage(s.actions[i], i, p, shape.micro_batches).add();
    s.most_in_flight[i] = std::min(2 * p + 1, 2 * wanted);
  }
  keep_micro_batches(s, wanted);
  return s;
}

}  // namespace troupe
