#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/core/device.hpp"
#include "kernels/core/result.hpp"

namespace troupe {

namespace detail {
struct pool_state;
/// One block of device memory and the count of the buffers that share it.
struct block {
  void* memory = nullptr;
  std::size_t capacity = 0;
  std::atomic<std::uint32_t> references{0};
  std::uint32_t size_class = 0;
  block* next = nullptr;             // links the free list
  std::shared_ptr<pool_state> home;  // set while the block is in use, so that memory outlives its pool
};
void give_back(block* b) noexcept;
}  // namespace detail

/// A shared, counted reference to a block of device memory. Copying shares the block; when the last reference goes,
/// the block returns to its pool. References may be dropped on any thread; the bytes themselves are unsynchronised.
class buffer {
public:
  buffer() noexcept = default;
  buffer(const buffer& other) noexcept : block_(other.block_) { retain(); }
  buffer(buffer&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  buffer& operator=(buffer other) noexcept { return std::swap(block_, other.block_), *this; }
  ~buffer() { drop(); }

  explicit operator bool() const noexcept { return block_ != nullptr; }
  void* data() const noexcept { return block_ ? block_->memory : nullptr; }
  std::size_t capacity() const noexcept { return block_ ? block_->capacity : 0; }
  bool unique() const noexcept { return block_ && block_->references.load(std::memory_order_acquire) == 1; }

private:
  friend class buffer_pool;
  explicit buffer(detail::block* b) noexcept : block_(b) { retain(); }
  void retain() noexcept {
    if (block_) block_->references.fetch_add(1, std::memory_order_relaxed);
  }
  void drop() noexcept {
    if (block_ && block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) detail::give_back(block_);
    block_ = nullptr;
  }
  detail::block* block_ = nullptr;
};

/// Keeps freed blocks by size class and hands them out again, so that a steady state allocates nothing.
/// Any thread may take and any thread may release; one uncontended lock each. Memory goes back to the device when
/// the pool and every buffer from it are gone.
class buffer_pool {
public:
  explicit buffer_pool(std::shared_ptr<memory_source> source);
  buffer_pool(buffer_pool&&) noexcept = default;
  buffer_pool& operator=(buffer_pool&&) noexcept = default;
  ~buffer_pool();

  /// A buffer of at least `bytes` (0 gives one that holds nothing but is not null). Contents are unspecified.
  /// Errors: `out_of_memory`, with the sizes in the text.
  result<buffer> take(std::size_t bytes);

  device where() const noexcept;

  struct statistics {
    std::size_t bytes_in_use = 0;          ///< handed out and not yet returned, as asked for size classes
    std::size_t peak_bytes_in_use = 0;     ///< its highest value since the last `reset_peak`
    std::size_t bytes_reserved = 0;        ///< taken from the device
    std::uint64_t device_allocations = 0;  ///< calls to the memory source: constant in the steady state
  };
  statistics stats() const;
  void reset_peak();

private:
  std::shared_ptr<detail::pool_state> state_;
};

}  // namespace troupe
