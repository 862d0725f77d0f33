#pragma once

#include <map>

#include "actors/cluster.hpp"
#include "actors/control/messages.hpp"

namespace troupe {

struct node_agent_state {
  node_agent_state() = default;  // no aggregate: CAF 0.17 would build one from the actor's own pointer under C++20
  static inline const char* name = "node agent";
  supervisor_actor supervisor;
  process_launcher* launcher = nullptr;
  std::map<std::uint32_t, int> running;  // worker to pid
};

/// Starts, watches and ends the worker processes of one machine; reports every end to the supervisor and judges none.
node_agent_actor::behavior_type node_agent(node_agent_actor::stateful_pointer<node_agent_state> self,
                                           process_launcher* launcher, supervisor_actor supervisor);

}  // namespace troupe
