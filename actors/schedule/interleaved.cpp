#include "actors/schedule/action_list.hpp"
#include "actors/schedule/generators.hpp"

namespace troupe {

namespace {

// One direction's order on every stage: a group of micro-batches passes chunk after chunk before the next group begins.
struct chunk_order {
  std::vector<action> forwards, backwards;
  std::uint32_t largest_group = 0;
};

// Groups of at least p: shorter ones would make the first stage wait for a chunk that is still on its way round, and
// unequal neighbours of which one is shorter than p can wait for each other.
chunk_order order_of(const schedule& s) {
  const auto m = s.micro_batches, v = s.chunks, groups = std::max(1U, m / s.stages);
  chunk_order order;
  for (std::uint32_t g = 0, first = 0; g < groups; ++g) {
    const auto size = m / groups + (g < m % groups ? 1 : 0);
    for (std::uint32_t c = 0; c < v; ++c)
      for (auto j = first; j < first + size; ++j) {
        order.forwards.push_back({pass::forward, j, static_cast<std::uint16_t>(c)});
        order.backwards.push_back({pass::backward, j, static_cast<std::uint16_t>(v - 1 - c)});
      }
    order.largest_group = std::max(order.largest_group, size);
    first += size;
  }
  return order;
}

}  // namespace

schedule make_interleaved(schedule_shape shape) {
  auto s = empty_schedule("interleaved", shape, 2);
  const auto order = order_of(s);
  const auto all = order.forwards.size();
  for (std::uint32_t i = 0; i < shape.stages; ++i) {
    const std::size_t ramp = 2 * (shape.stages - 1 - i) + std::size_t{s.chunks - 1} * order.largest_group;
    const auto warm_up = std::min(ramp, all);
    auto& stage = s.actions[i];
    stage.assign(order.forwards.begin(), order.forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
    for (std::size_t k = 0; k < all; ++k) {
      if (warm_up + k < all) stage.push_back(order.forwards[warm_up + k]);
      stage.push_back(order.backwards[k]);
    }
    s.most_in_flight[i] = static_cast<std::uint32_t>(std::min(ramp + 1, all));
  }
  return s;
}

schedule make_forward_only(schedule_shape shape) {
  auto s = empty_schedule("forward-only", shape);
  s.forward_only = true;
  s.actions.assign(s.stages, order_of(s).forwards);
  return s;
}

}  // namespace troupe
