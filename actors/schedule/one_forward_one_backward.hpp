#pragma once

#include "actors/schedule/action_list.hpp"

namespace troupe {

/// `warm_up` forwards, then a forward and a backward in turn while there are forwards, then backwards. `backward(j)`
/// appends the backward of micro-batch j.
template <class Backward>
void one_forward_one_backward(action_list& list, std::uint32_t micro_batches, std::uint32_t warm_up,
                              Backward backward) {
  warm_up = std::min(warm_up, micro_batches);
  for (std::uint32_t j = 0; j < warm_up; ++j) list.forward();
  for (std::uint32_t j = 0; j < micro_batches; ++j) {
    if (warm_up + j < micro_batches) list.forward();
    backward(j);
  }
}

}  // namespace troupe
