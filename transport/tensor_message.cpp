#include "transport/tensor_message.hpp"

#include <fmt/format.h>

namespace troupe {

std::string to_string(shard_id id) { return fmt::format("r{}/s{}/t{}", id.replica, id.stage, id.shard); }

static std::string_view name_of(message_kind kind) {
  switch (kind) {
    case message_kind::activation:
      return "activation";
    case message_kind::gradient:
      return "gradient";
    case message_kind::shared_gradient:
      return "shared gradient";
    case message_kind::replica_gradient:
      return "replica's gradient";
    case message_kind::reduced_gradient:
      return "reduced gradient";
    case message_kind::replica_parameter:
      return "replica's parameters";
    case message_kind::final_gradient:
      return "final gradient";
    case message_kind::owned_state:
      return "owned state";
    case message_kind::kept_state:
      return "kept state";
  }
  return "unknown kind";
}

std::string to_string(const message_id& id) {
  return fmt::format("{} {} -> {} step {} micro-batch {}", name_of(id.kind), to_string(id.source),
                     to_string(id.destination), id.step, id.micro_batch);
}

}  // namespace troupe
