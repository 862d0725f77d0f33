#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "actors/control/messages.hpp"
#include "actors/supervisor/membership.hpp"
#include "actors/supervisor/supervisor_state.hpp"

namespace troupe {

/// What the supervisor actor was given and what it knows of each worker.
struct supervisor_data {
  supervisor_data() = default;  // no aggregate: CAF 0.17 would build one from the actor's own pointer under C++20
  static inline const char* name = "supervisor";
  using clock = std::chrono::steady_clock;

  struct member {
    worker_actor worker;
    shard_actor shard;
    std::vector<std::uint8_t> address;  ///< of its tensor port
    std::uint32_t port = 1;
    int pid = 0;
    bool stopped = false;  ///< nothing of it is left, or it has said so at the end of the run
    std::uint64_t answered_ping = 0;
    clock::time_point launched;
  };
  enum class phase : std::uint8_t { starting, running, stopping, over };
  /// A report that a shard cannot reach a peer. The peer's exit, if that is the cause, comes before the next ticks.
  struct suspicion {
    std::uint32_t reporter = 0, suspect = 0;
    std::string text;
    int ticks_left = 2;
  };
  /// When the latest recovery got where; told once the next step is committed.
  struct recovery {
    clock::time_point lost, launched, introduced, restored;
    std::vector<std::uint32_t> ranks;
    bool from_scratch = false;
  };

  const cluster_settings* settings = nullptr;
  run_listener* listener = nullptr;
  std::span<progress_cell> cells;
  std::function<void(run_outcome)> finished;
  node_agent_actor agent;  // with processes
  supervisor_state judge;
  membership places;
  std::vector<member> members;  // [rank]; worker i hosts rank i, or worker 0 all of them
  phase where = phase::starting;
  run_outcome outcome;
  std::uint64_t pings = 0;
  clock::time_point phase_began;
  bool killed = false;
  std::vector<suspicion> suspicions;
  std::vector<clock::time_point> deaths;  ///< within the window
  std::uint32_t restarts = 0;
  std::uint64_t told_steps = 0;  ///< steps below this were reported: repeated ones are not reported again
  std::optional<recovery> under_way;
};

/// The one judge of a run: brings shards together, grants and commits steps, decides who is dead, has the dead
/// replaced, ends the run. On no per-micro-batch path. Everything it refers to must outlive it; `finished` runs once,
/// when nothing is left to wait for.
supervisor_actor::behavior_type supervisor(supervisor_actor::stateful_pointer<supervisor_data> self,
                                           const cluster_settings* settings, run_listener* listener,
                                           std::span<progress_cell> cells, process_launcher* launcher,
                                           std::function<void(run_outcome)> finished);

}  // namespace troupe
