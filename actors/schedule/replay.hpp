#pragma once

#include <cstddef>
#include <vector>

#include "actors/schedule/schedule.hpp"

namespace troupe {

/// Walks every stage's list for as long as `run(stage, action)` says that it could run the next one; returns how far
/// each stage came. An action that can run can also run later, so where the walk ends does not depend on its order: a
/// schedule that ends whole here ends whole for every timing.
template <class Run>
std::vector<std::size_t> replay(const schedule& s, Run run) {
  std::vector<std::size_t> cursor(s.stages, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::uint32_t i = 0; i < s.stages; ++i)
      for (; cursor[i] < s.actions[i].size() && run(i, s.actions[i][cursor[i]]); ++cursor[i]) moved = true;
  }
  return cursor;
}

/// A value for each virtual stage and micro-batch.
template <class T>
class per_micro_batch {
public:
  per_micro_batch(const schedule& s, T value)
      : width_(s.micro_batches), values_(std::size_t{s.virtual_stages()} * width_, value) {}
  T& at(std::uint32_t virtual_stage, std::uint32_t micro_batch) {
    return values_[virtual_stage * width_ + micro_batch];
  }

private:
  std::size_t width_;
  std::vector<T> values_;
};

}  // namespace troupe
