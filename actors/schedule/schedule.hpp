#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/result.hpp"

namespace troupe {

/// What a shard does with one micro-batch. A backward comes whole, or split into its two halves.
enum class pass : std::uint8_t {
  forward,          ///< F
  backward,         ///< B: gradient of the input, then of the weights
  backward_input,   ///< I: gradient of the input alone
  backward_weight,  ///< W: gradient of the weights alone
};

/// One entry of a schedule.
struct action {
  pass what = pass::forward;
  std::uint32_t micro_batch = 0;
  std::uint16_t chunk = 0;
  friend bool operator==(const action&, const action&) = default;
};

/// "F3", "B0", "I2", "W2".
std::string to_string(const action& a);

/// For each stage the actions of one step, in running order. Pure data; the same object is printed, checked and run.
struct schedule {
  std::string name;
  std::uint32_t stages = 0, micro_batches = 0;
  std::vector<std::vector<action>> actions;  // [stage]
};

/// What a generator is asked for. Any `stages` ≥ 1, any `micro_batches` ≥ 1.
struct schedule_shape {
  std::uint32_t stages = 1, micro_batches = 1;
};

/// All forwards, then all backwards in micro-batch order. Source: GPipe, arXiv:1811.06965.
schedule make_gpipe(schedule_shape shape);
/// p−1−i warm-up forwards on stage i, then one forward and one backward in turn. Source: PipeDream-Flush,
/// arXiv:2006.09503; Megatron-LM, arXiv:2104.04473.
schedule make_1f1b(schedule_shape shape);

/// By name; an unknown name is an error that lists the known ones.
result<schedule> make_schedule(std::string_view name, schedule_shape shape);
std::vector<std::string_view> schedule_names();

/// The most micro-batches that stage `stage` holds at once: forward done, backward not.
std::uint32_t peak_in_flight(const schedule& s, std::uint32_t stage);

/// The idle share of the makespan in unit times, hops free: (p−1)/(m+p−1) for gpipe and 1f1b.
double ideal_bubble(const schedule& s);

/// One line a stage: "s0  F0 F1 B0 …".
std::string to_text(const schedule& s);

}  // namespace troupe
