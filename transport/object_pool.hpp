#pragma once

#include <memory>
#include <vector>

namespace troupe {

/// Hands objects out and takes them back, keeping their addresses and their memory. For one thread.
template <class T>
class object_pool {
public:
  T* take() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<T>());
      free_.reserve(all_.size());  // so that `give_back` never allocates
      free_.push_back(all_.back().get());
    }
    T* object = free_.back();
    free_.pop_back();
    return object;
  }
  void give_back(T* object) noexcept { free_.push_back(object); }
  /// Every object, in use or not.
  template <class Visit>
  void for_each(Visit visit) {
    for (const auto& object : all_) visit(*object);
  }
  std::size_t in_use() const noexcept { return all_.size() - free_.size(); }

private:
  std::vector<std::unique_ptr<T>> all_;
  std::vector<T*> free_;
};

}  // namespace troupe
