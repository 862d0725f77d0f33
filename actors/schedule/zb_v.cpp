#include "actors/schedule/action_list.hpp"
#include "actors/schedule/generators.hpp"

namespace troupe {

namespace {

constexpr std::uint16_t down = 0, up = 1;

// The eight phases of stage i of p, for m ≥ 2p−1 micro-batches.
void add_stage(action_list list, std::uint32_t i, std::uint32_t p, std::uint32_t m) {
  // Warm-up: fill the way down, then both ways, then the first backwards.
  for (std::uint32_t n = 0; n < 2 * (p - i) - 1; ++n) list.forward(down);
  for (std::uint32_t n = 0; n < i; ++n) {
    list.forward(up);
    list.forward(down);
  }
  for (std::uint32_t n = 0; n < p - i; ++n) {
    list.forward(up);
    list.split_backward(up);
  }
  // Steady state: one forward and one backward of each chunk.
  while (list.done(pass::forward, up) < m) {
    if (list.done(pass::forward, down) < m) list.forward(down);
    list.split_backward(down);
    list.forward(up);
    list.split_backward(up);
  }
  // Cool-down: gradients of inputs first, for others wait for them; gradients of weights fill the waiting.
  for (std::uint32_t n = 0; n < i; ++n) {
    list.backward_input(down);
    list.backward_input(up);
  }
  for (std::uint32_t n = 0; n < p - i; ++n) {
    list.backward_input(down);
    list.backward_weight(down);
  }
  for (const auto chunk : {up, down})
    while (list.done(pass::backward_weight, chunk) < m) list.backward_weight(chunk);
}

}  // namespace

schedule make_zb_v(schedule_shape shape) {
  const auto p = shape.stages, wanted = shape.micro_batches;
  shape.micro_batches = std::max(wanted, 2 * p - 1);
  auto s = empty_schedule("zb-v", shape, 2);
  s.placement = chunk_placement::v_shape;
  for (std::uint32_t i = 0; i < p; ++i) {
    add_stage(action_list(s.actions[i]), i, p, shape.micro_batches);
    // When its first backward begins: the forwards of the first phase and of the i pairs after it, and one more.
    s.most_in_flight[i] = std::min(2 * p - 1 - i, wanted) + std::min(i + 1, wanted);
  }
  keep_micro_batches(s, wanted);
  return s;
}

}  // namespace troupe
