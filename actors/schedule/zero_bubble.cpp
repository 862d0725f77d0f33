#include "actors/schedule/generators.hpp"
#include "actors/schedule/one_forward_one_backward.hpp"

namespace troupe {

namespace {

// `depth`: warm-up forwards for each stage that follows, and micro-batches that W lags for each stage before: together,
// and so in flight, the same on every stage.
schedule make(std::string_view name, const schedule_shape& shape, std::uint32_t depth) {
  auto s = empty_schedule(name, shape);
  const auto m = shape.micro_batches;
  for (std::uint32_t i = 0; i < shape.stages; ++i) {
    action_list list(s.actions[i]);
    const auto lag = depth * i;
    one_forward_one_backward(list, m, depth * (shape.stages - 1 - i), [&](std::uint32_t j) {
      list.backward_input();
      if (j >= lag) list.backward_weight();
    });
    while (list.done(pass::backward_weight) < m) list.backward_weight();
    s.most_in_flight[i] = std::min(depth * (shape.stages - 1) + 1, m);
  }
  return s;
}

}  // namespace

schedule make_zb_h1(schedule_shape shape) { return make("zb-h1", shape, 1); }
schedule make_zb_h2(schedule_shape shape) { return make("zb-h2", shape, 2); }

}  // namespace troupe
