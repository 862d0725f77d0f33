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
/// With the chunk's letter where a stage has several: "Fa3", "Ib0"; the 27th chunk is "aa".
std::string to_string(const action& a, std::uint32_t chunks);

/// Which chunk of the model lies where. The model is cut into stages · chunks *virtual stages*, numbered along the
/// forward.
enum class chunk_placement : std::uint8_t {
  looped,  ///< chunk c of stage i is virtual stage c·p + i
  v_shape,  ///< two chunks: a stage has virtual stages i and 2p−1−i, so that the last one lies where the first one does
};

/// For each stage the actions of one step, in running order. Pure data; the same object is printed, checked and run.
struct schedule {
  std::string name;
  std::uint32_t stages = 0, micro_batches = 0, chunks = 1;
  chunk_placement placement = chunk_placement::looped;
  bool forward_only = false;
  bool asynchronous =
      false;  // no barrier between steps: `micro_batches` is a stream of many steps' (weight_versions.hpp)
  std::vector<std::vector<action>> actions;   // [stage]
  std::vector<std::uint32_t> most_in_flight;  // [stage]: what `peak_in_flight` must not pass; empty: anything goes

  std::uint32_t virtual_stages() const { return stages * chunks; }
  std::uint32_t virtual_stage(std::uint32_t stage, std::uint32_t chunk) const;
};

/// Where a virtual stage lives: a stage and one of its chunks.
struct chunk_place {
  std::uint32_t stage = 0;
  std::uint16_t chunk = 0;
  friend bool operator==(const chunk_place&, const chunk_place&) = default;
};
chunk_place place_of(const schedule& s, std::uint32_t virtual_stage);

/// What a generator is asked for. Any `stages` ≥ 1, any `micro_batches` ≥ 1.
struct schedule_shape {
  std::uint32_t stages = 1, micro_batches = 1;
  std::uint32_t chunks = 0;  ///< of a stage; 0: as many as the schedule is made for
};

/// By name, and proved (see `validate`). Errors: an unknown name (lists the known ones), a shape it cannot have.
result<schedule> make_schedule(std::string_view name, schedule_shape shape);
/// All of them.
std::vector<std::string_view> schedule_names();
/// Those that a shard can run today: they train, with one chunk a stage.
std::vector<std::string_view> runnable_schedule_names();

/// The most activations of one chunk and one micro-batch that stage `stage` holds at once: forward done, whole backward
/// not. 0 where nothing waits for a backward.
std::uint32_t peak_in_flight(const schedule& s, std::uint32_t stage);
/// Of each stage.
std::vector<std::uint32_t> peaks_in_flight(const schedule& s);

}  // namespace troupe
