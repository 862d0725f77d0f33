#include "actors/shard/progress_cell.hpp"

#include <fmt/format.h>

namespace troupe {

std::string to_string(const progress_cell& cell) {
  using phase = progress_cell::phase;
  const auto doing = [&](std::string_view what) {
    return fmt::format("at step {}, micro-batch {}, {}", cell.step(), cell.micro_batch(), what);
  };
  switch (cell.where()) {
    case phase::starting:
      return "while starting";
    case phase::waiting:
      return doing("waiting for its input");
    case phase::forward:
      return doing("forward");
    case phase::backward:
      return doing("backward");
    case phase::backward_input:
      return doing("backward (input)");
    case phase::backward_weight:
      return doing("backward (weight)");
    case phase::shared:
      return fmt::format("at step {}, after its last micro-batch", cell.step());
    case phase::update:
      return fmt::format("at step {}, in the optimizer's update", cell.step());
    case phase::done:
      return fmt::format("after step {}", cell.step());
  }
  return "at an unknown place";
}

}  // namespace troupe
