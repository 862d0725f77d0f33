#pragma once

#include <memory>

#include "transport/tensor_port.hpp"

namespace troupe {

/// Joins the ports of one process: a send is a hand-over of the tensor, no byte is copied.
/// Outlives its ports. Thread-safe.
class in_process_exchange {
public:
  in_process_exchange();
  ~in_process_exchange();
  /// `listener` must outlive the port.
  std::unique_ptr<tensor_port> make_port(shard_id self, port_listener& listener);

private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace troupe
