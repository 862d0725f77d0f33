#pragma once

#include <memory>
#include <utility>

#include "kernels/core/device.hpp"

namespace troupe {

/// One block of working memory that an operation uses until it returns. It grows to the largest use and stays, so that
/// a steady state allocates nothing.
class scratch_memory {
public:
  explicit scratch_memory(std::shared_ptr<memory_source> source) : source_(std::move(source)) {}
  scratch_memory(const scratch_memory&) = delete;
  scratch_memory& operator=(const scratch_memory&) = delete;
  ~scratch_memory() { release(); }

  /// At least `count` floats, contents unspecified; what an earlier call returned is no longer valid.
  result<float*> floats(std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    if (bytes > bytes_) {
      release();
      TROUPE_TRY(memory_, source_->allocate(bytes));
      bytes_ = bytes;
    }
    return static_cast<float*>(memory_);
  }

private:
  void release() noexcept {
    if (bytes_ > 0) source_->release(memory_, bytes_);
    bytes_ = 0;
  }

  std::shared_ptr<memory_source> source_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace troupe
