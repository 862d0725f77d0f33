#pragma once

#include <memory>
#include <optional>

#include "actors/cluster.hpp"
#include "actors/control/messages.hpp"
#include "actors/shard/shard_executor.hpp"

namespace troupe {

/// What a shard actor remembers. Members are destroyed in reverse: the port before the executor it reports to.
struct shard_actor_state {
  shard_actor_state() = default;  // no aggregate: CAF 0.17 would build one from the actor's own pointer under C++20
  static inline const char* name = "shard";
  std::unique_ptr<communicator> group;
  std::unique_ptr<backend> ops;
  std::unique_ptr<shard_executor> executor;
  std::unique_ptr<tensor_port> port;
  std::function<result<std::unique_ptr<tensor_port>>(shard_id, port_listener&)> make_port;
  std::uint32_t ports = 1;  ///< how many it has had
  loader_actor loader;
  supervisor_actor supervisor;
  shard_assignment assignment;
  bool introduced = false, connected = false, failed = false, stopping = false, running = false;
};

/// Turns control messages into calls on the executor and its results into messages; decides nothing. Spawn it detached,
/// so that the device belongs to its thread; `factory` runs there. `cell` must outlive it.
shard_actor::behavior_type shard(shard_actor::stateful_pointer<shard_actor_state> self, shard_assignment assignment,
                                 shard_factory factory, progress_cell* cell, supervisor_actor supervisor);

}  // namespace troupe
