#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "catch.hpp"
#include "kernels/collectives/host_group.hpp"

namespace troupe::collectives {

/// Memory that members, threads or processes, share beside their group: to tell each other, and the test, where they
/// are. All zero at first.
class board {
public:
  board();
  ~board();
  board(const board&) = delete;
  board& operator=(const board&) = delete;
  static constexpr std::size_t flags = 64, text_bytes = 4096;

  std::atomic<std::int64_t>& flag(std::size_t i) const { return shared_->flag[i]; }
  void write(std::uint32_t rank, const std::string& text) const;
  std::string read(std::uint32_t rank) const { return shared_->text[rank]; }
  /// Returns when the flag is at least `value`.
  void wait(std::size_t i, std::int64_t value) const;

private:
  struct memory {
    std::atomic<std::int64_t> flag[flags];
    char text[16][text_bytes];
  };
  memory* shared_;
};

/// Members of one kind of group: TROUPE_MEMBERS_ARE_PROCESSES in a binary whose members are processes, else threads.
class crew {
public:
  explicit crew(std::uint32_t size, std::size_t arena_bytes = std::size_t{64} << 20);
  std::uint32_t size() const { return size_; }
  result<std::unique_ptr<communicator>> join(host_group_settings settings) const;
  /// Joins in `epoch` as `rank`; stops the test, or the member, where that fails.
  std::unique_ptr<communicator> member(std::uint32_t rank, std::uint32_t epoch = 1,
                                       std::chrono::milliseconds deadline = std::chrono::milliseconds(20'000)) const;
  int descriptor() const { return segment_.descriptor(); }

  /// Runs `act(rank)` for all ranks at once; each returns what went wrong, or nothing, which this checks.
  void run(const std::function<std::string(std::uint32_t)>& act) const;

private:
  std::uint32_t size_;
  host_group_segment segment_;
  mutable thread_group threads_;
};

/// Starts a process that does `act` and ends with it. To be called while this process has one thread.
pid_t start_process(const std::function<void()>& act);
/// Waits for its end; true where it ended by itself with 0.
bool ended_well(pid_t child);

/// "" where `done` is an error of this code whose text has each of `parts`; else what is wrong.
std::string expect_error(const status& done, errc code, std::initializer_list<std::string_view> parts = {});
/// "" where `done` is a success.
std::string expect_ok(const status& done, std::string_view doing);

/// A wait of random length, from nothing to some ten microseconds, that no clock ends.
void dawdle(std::mt19937& random);

std::int64_t now_ms();

}  // namespace troupe::collectives
