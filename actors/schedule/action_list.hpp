#pragma once

#include <algorithm>
#include <array>

#include "actors/schedule/schedule.hpp"

// What the generators write with.

namespace troupe {

/// A schedule of `shape` without actions; it is made for `chunks` of them.
inline schedule empty_schedule(std::string_view name, const schedule_shape& shape, std::uint32_t chunks = 1) {
  schedule s;
  s.name = name;
  s.stages = shape.stages;
  s.micro_batches = shape.micro_batches;
  s.chunks = shape.chunks > 0 ? shape.chunks : chunks;
  s.actions.resize(shape.stages);
  s.most_in_flight.resize(shape.stages);
  return s;
}

/// Appends to one stage's list; of each chunk and pass the next micro-batch in turn.
class action_list {
public:
  explicit action_list(std::vector<action>& to) : to_(to) {}

  void add(pass what, std::uint16_t chunk = 0) { to_.push_back({what, next_[place(what)][chunk]++, chunk}); }
  void forward(std::uint16_t chunk = 0) { add(pass::forward, chunk); }
  void backward(std::uint16_t chunk = 0) {
    add(pass::backward, chunk);
    ++next_[place(pass::backward_input)][chunk];  // a whole backward is both halves
    ++next_[place(pass::backward_weight)][chunk];
  }
  void backward_input(std::uint16_t chunk = 0) {
    add(pass::backward_input, chunk);
    ++next_[place(pass::backward)][chunk];
  }
  void backward_weight(std::uint16_t chunk = 0) { add(pass::backward_weight, chunk); }
  /// I and W of the same micro-batch.
  void split_backward(std::uint16_t chunk = 0) {
    backward_input(chunk);
    backward_weight(chunk);
  }
  std::uint32_t done(pass what, std::uint16_t chunk = 0) const { return next_[place(what)][chunk]; }

private:
  static std::size_t place(pass what) { return static_cast<std::size_t>(what); }
  std::vector<action>& to_;
  std::array<std::array<std::uint32_t, 2>, 4>
      next_{};  // [pass][chunk]: no generator that counts has more than two chunks
};

/// Drops the micro-batches from `micro_batches` on: what is left of a schedule that was made for more. No action waits
/// for another micro-batch, so what was free of deadlocks stays so.
inline void keep_micro_batches(schedule& s, std::uint32_t micro_batches) {
  s.micro_batches = micro_batches;
  for (auto& stage : s.actions) std::erase_if(stage, [&](const action& a) { return a.micro_batch >= micro_batches; });
}

}  // namespace troupe
