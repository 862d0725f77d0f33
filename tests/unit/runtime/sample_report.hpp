#pragma once

#include "actors/run_listener.hpp"

namespace troupe {

/// A step of 1F1B on two stages and two micro-batches whose forward takes 1 µs + 1 ns and whose backward takes twice
/// that. Steps follow each other with an update of half a microsecond in between.
inline step_report sample_report(std::uint64_t step) {
  const std::int64_t unit = 1'001, zero = 5'000'000'123 + static_cast<std::int64_t>(step) * 20'000;
  const auto at = [&](pass what, std::uint32_t mb, std::int64_t from, std::int64_t to) {
    return action_record{{what, mb, 0}, zero + from * unit, zero + to * unit};
  };
  step_report r;
  r.step = step;
  r.loss = 3.25 - 0.1 * static_cast<double>(step);
  r.grad_norm = 1.0 / 3;
  r.learning_rate = 1e-3;
  r.tokens_per_s = 12'345.5;
  r.step_s = 0.5;
  r.bubble_ideal = 1.0 / 3;
  const auto f = pass::forward, b = pass::backward;
  r.timelines = {{{0, 0, 0}, {at(f, 0, 0, 1), at(f, 1, 1, 2), at(b, 0, 4, 6), at(b, 1, 7, 9)}, {}},
                 {{0, 1, 0}, {at(f, 0, 1, 2), at(b, 0, 2, 4), at(f, 1, 4, 5), at(b, 1, 5, 7)}, {}}};
  if (step > 0)
    for (auto& line : r.timelines) line.update = {{}, zero - 1'500, zero - 1'000};
  r.bubble = 1 - 12.0 / 18;
  return r;
}

}  // namespace troupe
