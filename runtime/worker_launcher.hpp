#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/cluster.hpp"
#include "transport/event_loop.hpp"

namespace troupe {

/// Shared memory without a name that head and workers map: one progress cell a shard, readable after its writer's
/// death.
class progress_page {
public:
  static result<progress_page> make(std::size_t cells);
  /// Maps the page behind an inherited descriptor.
  static result<progress_page> adopt(int descriptor);
  progress_page(progress_page&& other) noexcept;
  progress_page& operator=(progress_page&&) = delete;
  ~progress_page();

  std::span<progress_cell> cells() const noexcept { return {cells_, count_}; }
  int descriptor() const noexcept { return descriptor_; }

private:
  progress_page(int descriptor, progress_cell* cells, std::size_t count)
      : descriptor_(descriptor), cells_(cells), count_(count) {}
  static result<progress_page> map(int descriptor, std::size_t count);
  int descriptor_ = -1;
  progress_cell* cells_ = nullptr;
  std::size_t count_ = 0;
};

/// Starts this program again as `troupe worker` for each index and watches it by pidfd on `loop`. A worker dies with
/// the head. Whatever still runs when the launcher goes is killed and waited for.
class worker_launcher final : public process_launcher {
public:
  struct settings {
    std::string head_address, run_key;
    std::uint16_t head_port = 0;
    std::string log_folder;  ///< worker-<index>.log is written there
    std::int64_t threads_per_worker = 1;
    int cells_descriptor = -1;
    std::vector<int> group_descriptors;  ///< [index]: where its tensor shards meet; empty where none do
  };
  explicit worker_launcher(event_loop& loop) : loop_(loop) {}
  ~worker_launcher() override;
  /// Before the first `start`.
  void configure(settings s) { settings_ = std::move(s); }

  result<int> start(std::uint32_t index, std::function<void(process_end)> ended) override;
  void signal(std::uint32_t index, int signal) override;
  void signal_all(int signal);

private:
  struct child {
    int pid = 0;
    boost::asio::posix::stream_descriptor pidfd;
    std::function<void(process_end)> ended;
  };
  result<int> spawn(std::uint32_t index, std::function<void(process_end)> ended);
  void watch(std::uint32_t index, std::shared_ptr<child> c);

  event_loop& loop_;
  settings settings_;
  std::mutex mutex_;
  std::map<std::uint32_t, std::shared_ptr<child>> children_;
};

}  // namespace troupe
