#include "actors/schedule/one_forward_one_backward.hpp"

#include "actors/schedule/generators.hpp"

namespace troupe {

namespace {

// `depth`: warm-up forwards for each stage that follows.
schedule make(std::string_view name, const schedule_shape& shape, std::uint32_t depth) {
  auto s = empty_schedule(name, shape);
  for (std::uint32_t i = 0; i < shape.stages; ++i) {
    action_list list(s.actions[i]);
    const auto warm_up = depth * (shape.stages - 1 - i);
    one_forward_one_backward(list, shape.micro_batches, warm_up, [&](std::uint32_t) { list.backward(); });
    s.most_in_flight[i] = std::min(warm_up + 1, shape.micro_batches);
  }
  return s;
}

schedule make_stream(std::string_view name, const schedule_shape& shape) {
  auto s = make(name, shape, 1);
  s.asynchronous = true;
  return s;
}

}  // namespace

schedule make_1f1b(schedule_shape shape) { return make("1f1b", shape, 1); }
schedule make_eager_1f1b(schedule_shape shape) { return make("eager-1f1b", shape, 2); }

schedule make_pipedream(schedule_shape shape) { return make_stream("pipedream", shape); }
schedule make_pipedream_2bw(schedule_shape shape) { return make_stream("pipedream-2bw", shape); }

}  // namespace troupe
