#pragma once

#include <memory>

#include "kernels/core/device.hpp"

namespace troupe {

/// Memory of one GPU (`cudaMalloc`, aligned to 256 bytes). `out_of_memory` says how much was free.
std::shared_ptr<memory_source> cuda_memory(int device_index);

/// Host memory that stays in place, so that the GPU copies from and to it on its own.
std::shared_ptr<memory_source> pinned_memory(int device_index);

}  // namespace troupe
