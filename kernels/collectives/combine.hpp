#pragma once

#include <cstddef>
#include <span>

#include "kernels/collectives/communicator.hpp"

namespace troupe::group {

/// Combines `count` elements from element `first` of each of `from`, in the order given, and stores them from element
/// `at` on of each of `to`, which may be the same tensors. `type` is f32, or bf16: that is summed in f32 and rounded
/// once, to the nearest even. A NaN of any member is a NaN in the outcome, of a maximum too.
void combine(dtype type, std::span<std::byte* const> from, std::size_t first, std::span<std::byte* const> to,
             std::size_t at, std::size_t count, reduction how);

}  // namespace troupe::group
