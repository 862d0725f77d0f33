#pragma once

#include <cstdint>

#include "transport/tensor_message.hpp"

namespace troupe {

/// The logical extents of a run: stages of the pipeline, replicas of it, tensor shards of each stage. Shards are
/// numbered replica by replica, stage by stage, so that the tensor shards of a stage are neighbours.
struct mesh {
  std::uint32_t stages = 1, replicas = 1, shards = 1;

  constexpr std::uint32_t size() const noexcept { return stages * replicas * shards; }
  constexpr bool holds(shard_id id) const noexcept {
    return id.replica < replicas && id.stage < stages && id.shard < shards;
  }
  constexpr std::uint32_t rank_of(shard_id id) const noexcept { return group_of(id) * shards + id.shard; }
  constexpr shard_id shard_at(std::uint32_t rank) const noexcept {
    return {static_cast<std::uint16_t>(rank / shards / stages), static_cast<std::uint16_t>(rank / shards % stages),
            static_cast<std::uint16_t>(rank % shards)};
  }
  /// The tensor shards of one stage of one replica.
  constexpr std::uint32_t groups() const noexcept { return stages * replicas; }
  constexpr std::uint32_t group_of(shard_id id) const noexcept { return id.replica * stages + id.stage; }
};

}  // namespace troupe
