#pragma once

#include <memory>

#include "actors/control/messages.hpp"
#include "actors/shard/inbox.hpp"
#include "actors/stage/model.hpp"

namespace troupe {

struct loader_settings {
  std::uint64_t steps = 1;
  std::uint64_t first_step = 0;          ///< where it begins
  std::uint32_t micro_batches = 1;       ///< of this replica
  std::uint32_t first_micro_batch = 0;   ///< where they begin among those of the whole step
  bool inputs = false, targets = false;  ///< what its shard needs
};

/// Reads ahead for one shard of its own process: micro-batches in order, as many as `load_more` asked for.
struct loader_state {
  loader_state() = default;  // no aggregate: CAF 0.17 would build one from the actor's own pointer under C++20
  static inline const char* name = "loader";
  std::shared_ptr<data_source> source;
  std::shared_ptr<inbox> out;
  loader_settings settings;
  buffer_pool memory{host_memory()};
  std::uint64_t next = 0;  ///< counts micro-batches over all steps

  /// Reads the next one into the shard's inbox. Does nothing when all have been read.
  status load_next();
};

/// The loader of the shard that owns `out`. A source that fails is reported to the shard as its own failure.
loader_actor::behavior_type data_loader(loader_actor::stateful_pointer<loader_state> self,
                                        std::shared_ptr<data_source> source, std::shared_ptr<inbox> out,
                                        loader_settings settings);

}  // namespace troupe
