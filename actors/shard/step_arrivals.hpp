#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/tensor.hpp"

namespace troupe {

/// Tensors that arrived for one step and wait for their action, by what they are. A second copy of one is not taken:
/// receivers are idempotent.
class step_arrivals {
public:
  step_arrivals(std::uint32_t micro_batches, std::size_t shared_uses)
      : activations_(micro_batches), gradients_(micro_batches), targets_(micro_batches), shared_(shared_uses) {}

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

  void clear() {
    for (auto* cells : {&activations_, &gradients_, &targets_, &shared_})
      for (auto& c : *cells) c = {};
  }

private:
  static cell* at(std::vector<cell>& cells, std::size_t i) { return i < cells.size() ? &cells[i] : nullptr; }
  std::vector<cell> activations_, gradients_, targets_, shared_;
};

}  // namespace troupe
