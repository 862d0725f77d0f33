#pragma once

#include <cstdint>
#include <optional>

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

  /// The peer that keeps a copy of a shard's state: with replicas the next one, else the same shard of the next stage.
  /// Nobody where there is just one stage and one replica.
  constexpr std::optional<shard_id> buddy_of(shard_id id) const noexcept { return around(id, 1); }
  /// Whose state `id` keeps: the inverse of `buddy_of`.
  constexpr std::optional<shard_id> ward_of(shard_id id) const noexcept { return around(id, -1); }

private:
  constexpr std::optional<shard_id> around(shard_id id, int by) const noexcept {
    const auto next = [by](std::uint32_t i, std::uint32_t n) { return static_cast<std::uint16_t>((i + n + by) % n); };
    if (replicas > 1) return shard_id{next(id.replica, replicas), id.stage, id.shard};
    if (stages > 1) return shard_id{id.replica, next(id.stage, stages), id.shard};
    return std::nullopt;
  }
};

}  // namespace troupe
