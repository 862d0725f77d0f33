#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace troupe {

/// A first-in-first-out queue that keeps its memory: once grown to a run's usual depth it allocates nothing, which
/// `std::deque` does every few elements.
template <class T>
class fifo {
public:
  bool empty() const noexcept { return head_ == items_.size(); }
  std::size_t size() const noexcept { return items_.size() - head_; }
  void push(T item) { items_.push_back(std::move(item)); }

  /// The oldest item; the queue must not be empty.
  T pop() {
    T item = std::move(items_[head_++]);
    if (empty()) {
      items_.clear();
      head_ = 0;
    } else if (head_ * 2 >= items_.size() && head_ >= 64) {  // never empty: drop the used front now and then
      items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    return item;
  }

  void clear() noexcept {
    items_.clear();
    head_ = 0;
  }

private:
  std::vector<T> items_;
  std::size_t head_ = 0;
};

}  // namespace troupe
