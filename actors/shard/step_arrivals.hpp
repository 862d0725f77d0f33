#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/tensor.hpp"

namespace troupe {

/// Tensors that arrived for one step and wait for their action, by what they are. A second copy of one is not taken:
/// receivers are idempotent.
class step_arrivals {
public:
  struct sizes {
    std::uint32_t micro_batches = 1;
    std::size_t shared_uses = 0;
    std::size_t buckets = 0, replicas = 1;
    std::size_t own_units = 0, copied_units = 0;  ///< of this shard's state, and of the state it keeps a copy of
  };
  explicit step_arrivals(const sizes& s)
      : activations_(s.micro_batches),
        gradients_(s.micro_batches),
        targets_(s.micro_batches),
        shared_(s.shared_uses),
        parts_(s.buckets * s.replicas),
        shares_(s.buckets * s.replicas),
        final_gradients_(s.copied_units),
        owned_states_(3 * s.copied_units),
        kept_states_(3 * s.own_units),
        replicas_(s.replicas) {}

  struct cell {
    tensor value;
    bool seen = false;  // since the step began; stays when the value is taken
    bool put(tensor t) {
      if (seen) return false;
      value = std::move(t);
      return seen = true;
    }
    bool waiting() const { return static_cast<bool>(value); }
    tensor take() { return std::exchange(value, tensor()); }
  };

  cell* activation(std::uint32_t micro_batch) { return at(activations_, micro_batch); }
  cell* gradient(std::uint32_t micro_batch) { return at(gradients_, micro_batch); }
  cell* target(std::uint32_t micro_batch) { return at(targets_, micro_batch); }
  cell* shared(std::size_t index) { return at(shared_, index); }

  /// Of a bucket, from another replica: its part of our share, and what it made of its own (the sum, or with ZeRO-1 the
  /// updated parameters).
  cell* part(std::size_t bucket, std::size_t replica) { return at(parts_, bucket, replica); }
  cell* share(std::size_t bucket, std::size_t replica) { return at(shares_, bucket, replica); }

  /// Of the ward: the final gradient of a unit; one part of its state. Of the buddy: one part of our own state.
  cell* final_gradient(std::size_t unit) { return at(final_gradients_, unit); }
  cell* owned_state(std::size_t index) { return at(owned_states_, index); }
  cell* kept_state(std::size_t index) { return at(kept_states_, index); }

  void clear() {
    for (auto* cells : {&activations_, &gradients_, &targets_, &shared_, &parts_, &shares_, &final_gradients_,
                        &owned_states_, &kept_states_})
      for (auto& c : *cells) c = {};
  }

private:
  static cell* at(std::vector<cell>& cells, std::size_t i) { return i < cells.size() ? &cells[i] : nullptr; }
  cell* at(std::vector<cell>& cells, std::size_t bucket, std::size_t replica) const {
    return replica < replicas_ ? at(cells, bucket * replicas_ + replica) : nullptr;
  }
  std::vector<cell> activations_, gradients_, targets_, shared_, parts_, shares_;
  std::vector<cell> final_gradients_, owned_states_, kept_states_;
  std::size_t replicas_;
};

}  // namespace troupe
