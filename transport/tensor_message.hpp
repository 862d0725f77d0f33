#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "kernels/core/shape.hpp"

namespace troupe {

/// The logical place of a shard in the mesh: stage of the pipeline, replica of it, slice of the stage.
struct shard_id {
  std::uint16_t replica = 0, stage = 0, shard = 0;
  friend auto operator<=>(const shard_id&, const shard_id&) = default;
};

/// "r0/s2/t1".
std::string to_string(shard_id id);

/// What a tensor message carries; its name says what is now true at the sender.
enum class message_kind : std::uint8_t {
  activation = 1,        ///< a stage's output, for the next stage
  gradient = 2,          ///< the gradient of a stage's input, for the stage before
  shared_gradient = 3,   ///< the gradient of a parameter that two stages share, at the end of a step
  replica_gradient = 4,  ///< one replica's part of a sum that the receiver makes for all replicas
  reduced_gradient = 5,  ///< that sum
  replica_parameter = 6,  ///< updated parameters, from the replica that keeps their optimizer state
  final_gradient = 7,     ///< the gradient that the step's update uses, for who keeps a copy of the sender's state
  owned_state = 8,        ///< the sender's parameters and moments, for who is to keep a copy of them
  kept_state = 9          ///< the receiver's parameters and moments, from who kept a copy of them
};
constexpr bool is_message_kind(std::uint8_t number) noexcept { return number >= 1 && number <= 9; }

/// What a message is. The receiver matches by this and never by order of arrival.
struct message_id {
  message_kind kind = message_kind::activation;
  shard_id source, destination;
  std::uint32_t epoch = 0;        ///< of the job; a lower one than the receiver's is dropped and counted
  std::uint32_t incarnation = 0;  ///< of the sender
  std::uint64_t step = 0;
  std::uint32_t micro_batch = 0;  ///< or the index of a shared parameter's use, or of a bucket or unit of state
  std::uint16_t chunk = 0;        ///< the receiver's chunk when stages are interleaved
  friend bool operator==(const message_id&, const message_id&) = default;
};

/// "activation r0/s0/t0 -> r0/s1/t0 step 4 micro-batch 2".
std::string to_string(const message_id& id);

}  // namespace troupe
