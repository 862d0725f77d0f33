#include "kernels/core/buffer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "kernels/core/tensor.hpp"

namespace troupe {

namespace {

class host_source final : public memory_source {
public:
  device where() const noexcept override { return {}; }
  result<void*> allocate(std::size_t bytes) override {
    void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory) return error{errc::out_of_memory, fmt::format("allocating {} bytes of host memory", bytes)};
    return memory;
  }
  void release(void* memory, std::size_t) noexcept override { std::free(memory); }
};

// Eight classes between powers of two: at most one eighth of a block is unused.
std::size_t class_bytes(std::size_t bytes) {
  if (bytes <= 512) return 512;
  std::size_t step = std::bit_floor(bytes - 1) / 8;
  return (bytes + step - 1) / step * step;
}

std::uint32_t class_index(std::size_t rounded) {
  auto power = static_cast<std::uint32_t>(std::bit_width(rounded - 1));
  return rounded <= 512 ? 0
                        : power * 8 + static_cast<std::uint32_t>((rounded - 1) / (std::bit_floor(rounded - 1) / 8) - 8);
}

}  // namespace

namespace detail {

struct pool_state : std::enable_shared_from_this<pool_state> {
  explicit pool_state(std::shared_ptr<memory_source> s) : source(std::move(s)), free_lists(64 * 8 + 8, nullptr) {}
  ~pool_state() {
    for (auto* b : free_lists)
      while (b) {
        auto* next = b->next;
        source->release(b->memory, b->capacity);
        delete b;
        b = next;
      }
  }

  std::shared_ptr<memory_source> source;
  mutable std::mutex mutex;
  std::vector<block*> free_lists;
  buffer_pool::statistics numbers;
};

void give_back(block* b) noexcept {
  auto home = std::move(b->home);
  std::lock_guard lock(home->mutex);
  home->numbers.bytes_in_use -= b->capacity;
  b->next = std::exchange(home->free_lists[b->size_class], b);
}

}  // namespace detail

std::shared_ptr<memory_source> host_memory() {
  static const auto source = std::make_shared<host_source>();
  return source;
}

buffer_pool::buffer_pool(std::shared_ptr<memory_source> source)
    : state_(std::make_shared<detail::pool_state>(std::move(source))) {}

buffer_pool::~buffer_pool() = default;

result<buffer> buffer_pool::take(std::size_t bytes) {
  const auto rounded = class_bytes(bytes);
  const auto index = class_index(rounded);
  std::lock_guard lock(state_->mutex);
  auto*& list = state_->free_lists[index];
  detail::block* b = list;
  if (b) {
    list = std::exchange(b->next, nullptr);
  } else {
    TROUPE_TRY(void* memory, state_->source->allocate(rounded));
    b = new detail::block;
    b->memory = memory;
    b->capacity = rounded;
    b->size_class = index;
    state_->numbers.bytes_reserved += rounded;
    ++state_->numbers.device_allocations;
  }
  auto& numbers = state_->numbers;
  numbers.bytes_in_use += b->capacity;
  numbers.peak_bytes_in_use = std::max(numbers.peak_bytes_in_use, numbers.bytes_in_use);
  b->home = state_;
  return buffer(b);
}

device buffer_pool::where() const noexcept { return state_->source->where(); }

buffer_pool::statistics buffer_pool::stats() const {
  std::lock_guard lock(state_->mutex);
  return state_->numbers;
}

void buffer_pool::reset_peak() {
  std::lock_guard lock(state_->mutex);
  state_->numbers.peak_bytes_in_use = state_->numbers.bytes_in_use;
}

result<tensor> tensor::make(buffer_pool& pool, tensor_spec spec) {
  TROUPE_TRY(auto bytes, pool.take(spec.bytes()));
  return tensor(std::move(bytes), spec);
}

}  // namespace troupe
