#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <vector>

#include "actors/control/messages.hpp"
#include "actors/supervisor/supervisor_state.hpp"

namespace troupe {

/// What the supervisor actor was given and what it knows of each worker.
struct supervisor_data {
  supervisor_data() = default;  // no aggregate: CAF 0.17 would build one from the actor's own pointer under C++20
  static inline const char* name = "supervisor";

  struct member {
    worker_actor worker;
    shard_actor shard;
    peer_address address;
    int pid = 0;
    bool joined = false, ready = false, connected = false, stopped = false, gone = false;
    std::uint64_t answered_ping = 0;
  };
  enum class phase : std::uint8_t { starting, connecting, running, stopping, over };

  const cluster_settings* settings = nullptr;
  run_listener* listener = nullptr;
  std::span<progress_cell> cells;
  std::function<void(run_outcome)> finished;
  node_agent_actor agent;  // with processes
  supervisor_state judge;
  std::vector<member> members;  // [rank]; worker i hosts rank i, or worker 0 all of them
  phase where = phase::starting;
  run_outcome outcome;
  std::uint64_t pings = 0;
  std::chrono::steady_clock::time_point phase_began;
  bool killed = false;
  /// A shard's report that it cannot reach a peer. The peer's exit, if that is the cause, arrives before the next
  /// ticks.
  struct suspicion {
    std::size_t reporter = 0;
    std::string text;
    int ticks_left = 2;
  };
  std::optional<suspicion> suspicion;
};

/// The one judge of a run: brings shards together, grants and commits steps, decides who is dead, ends the run. On no
/// per-micro-batch path. Everything it refers to must outlive it; `finished` runs once, when nothing is left to wait
/// for.
supervisor_actor::behavior_type supervisor(supervisor_actor::stateful_pointer<supervisor_data> self,
                                           const cluster_settings* settings, run_listener* listener,
                                           std::span<progress_cell> cells, process_launcher* launcher,
                                           std::function<void(run_outcome)> finished);

}  // namespace troupe
