#pragma once

#include <span>
#include <vector>

#include "actors/cluster.hpp"
#include "actors/control/messages.hpp"

namespace troupe {

struct worker_state {
  worker_state() = default;  // no aggregate: CAF 0.17 would build one from the actor's own pointer under C++20
  static inline const char* name = "worker";
  supervisor_actor supervisor;
  std::uint32_t index = 0;
  std::span<progress_cell> cells;
  shard_factory factory;
};

/// One process's host of shard actors: spawns what it is assigned, answers pings, quits when told to or when the
/// supervisor is gone.
worker_actor::behavior_type worker(worker_actor::stateful_pointer<worker_state> self, supervisor_actor supervisor,
                                   std::uint32_t index, std::string run_key, std::span<progress_cell> cells,
                                   shard_factory factory);

}  // namespace troupe
