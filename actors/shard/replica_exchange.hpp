#pragma once

#include <vector>

#include "actors/shard/outbox.hpp"
#include "actors/shard/step_arrivals.hpp"
#include "actors/stage/stage.hpp"

namespace troupe {

/// How the replicas of one shard make one gradient of theirs, by messages, while they go on computing: each sends every
/// other one its part of that one's share of a bucket, adds up its own share in the order of replicas, and sends the
/// sum back; with ZeRO-1 it updates its share instead and sends the parameters. 2·(n−1)/n of the gradient's bytes leave
/// each replica, as in a ring, in two hops. Used by one thread, its executor's.
class replica_exchange {
public:
  struct settings {
    shard_id self;
    std::uint32_t replicas = 1;
    bool split_optimizer = false;
  };
  replica_exchange(const settings& s, const stage& model);

  /// A bucket's gradients are complete here: sends the others their parts.
  status send_parts(stage& model, outbox& out, std::size_t bucket);
  /// Adds up what has arrived, sends sums, takes over those of others. True when nothing of the step is missing.
  result<bool> advance(stage& model, outbox& out, step_arrivals& here);
  /// After the update, or where a shard begins with a later step: ZeRO-1 sends this replica's share of the parameters.
  status begin_step(stage& model, outbox& out);
  /// With ZeRO-1, takes over the others' shares. True when all parameters are those of the open step and it may run.
  result<bool> parameters_whole(stage& model, outbox& out, step_arrivals& here);

  /// What a message of this exchange must carry; empty for one that has no place here. Any thread.
  tensor_spec expected(const message_id& id) const;

private:
  std::uint64_t elements_of(std::size_t bucket, std::uint32_t replica) const {
    return elements_[bucket * settings_.replicas + replica];
  }
  /// What goes from the owner of a share to the others.
  message_kind share_kind() const {
    return settings_.split_optimizer ? message_kind::replica_parameter : message_kind::reduced_gradient;
  }
  shard_id peer(std::uint32_t replica) const {
    return {static_cast<std::uint16_t>(replica), settings_.self.stage, settings_.self.shard};
  }
  /// Sends every other replica what this one made of its share of a bucket.
  void pass_on(outbox& out, std::size_t bucket, const tensor& share) const;
  /// Adds up this replica's share where all parts are there; true when it is done.
  result<bool> sum(stage& model, outbox& out, step_arrivals& here, std::size_t bucket);
  /// Takes over what has arrived of the others' shares; true when nothing is missing.
  result<bool> take_shares(stage& model, outbox& out, step_arrivals& here);

  settings settings_;
  std::size_t buckets_ = 0;
  std::vector<std::uint64_t> elements_;  // [bucket][replica]: of its share
  std::vector<bool> announced_;          // [bucket]: our own gradients are complete
  std::vector<bool> summed_;             // [bucket]
  std::vector<bool> taken_;              // [bucket][replica]: its share, or nothing to take
  bool first_step_ = true;               // parameters are whole from the start
  std::vector<tensor> parts_;
};

}  // namespace troupe
