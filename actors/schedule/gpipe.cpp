#include "actors/schedule/action_list.hpp"
#include "actors/schedule/generators.hpp"

namespace troupe {

schedule make_gpipe(schedule_shape shape) {
  auto s = empty_schedule("gpipe", shape);
  for (std::uint32_t i = 0; i < shape.stages; ++i) {
    action_list list(s.actions[i]);
    for (std::uint32_t m = 0; m < shape.micro_batches; ++m) list.forward();
    for (std::uint32_t m = 0; m < shape.micro_batches; ++m) list.backward();
    s.most_in_flight[i] = shape.micro_batches;
  }
  return s;
}

}  // namespace troupe
