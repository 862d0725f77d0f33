#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/core/result.hpp"

namespace troupe {

enum class device_kind : std::uint8_t { cpu, cuda };

/// Where memory lives and operations run: a share of the CPU, or one GPU by its CUDA ordinal.
struct device {
  device_kind kind = device_kind::cpu;
  int index = 0;
  friend bool operator==(const device&, const device&) = default;
};

/// "cpu" or "cuda:3".
std::string to_string(device d);

/// Raw memory of one device: what a `buffer_pool` grows from. Any thread may call it.
class memory_source {
public:
  virtual ~memory_source() = default;
  virtual device where() const noexcept = 0;
  /// At least `bytes` bytes aligned to 64, or `out_of_memory` with the size.
  virtual result<void*> allocate(std::size_t bytes) = 0;
  virtual void release(void* memory, std::size_t bytes) noexcept = 0;
};

/// Host memory, aligned to 64 bytes.
std::shared_ptr<memory_source> host_memory();

}  // namespace troupe
