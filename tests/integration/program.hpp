#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace troupe::whole {

using milliseconds = std::chrono::milliseconds;

/// How long a test waits for what must happen; reached only when it never does.
constexpr milliseconds patience{60'000};

/// A process seen in /proc.
struct process {
  int pid = 0;
  std::string standard_output;  ///< the file behind its descriptor 1: a worker's log names the worker
};

/// How a program ended.
struct program_end {
  int code = -1;         ///< its exit code, or −1 where a signal ended it
  int signal = 0;        ///< that ended it, or 0
  std::string out, err;  ///< everything it wrote
  double seconds = 0;    ///< from the call of `wait` to the end
};

/// A program under test, in a process group of its own. Everything it starts inherits a mark in its environment, so
/// that what it leaves behind can be found; whatever is left when this goes is killed.
class program {
public:
  /// Starts `words[0]` with the arguments after it. The caller's TROUPE_ variables are withheld; `environment`
  /// ("NAME=value") is added. Throws `std::runtime_error` where the program cannot be started: a test cannot go on
  /// then.
  explicit program(std::vector<std::string> words, const std::vector<std::string>& environment = {});
  program(const program&) = delete;
  program& operator=(const program&) = delete;
  ~program();

  int pid() const noexcept { return pid_; }
  int pidfd() const noexcept { return pidfd_; }
  void signal(int number) const;
  /// Blocks until it has ended; throws `std::runtime_error` with what it wrote when that takes longer than `limit`.
  program_end wait(milliseconds limit = patience);
  std::string out() const;
  std::string err() const;

  /// Itself and everything it started that still runs; a zombie does not.
  std::vector<process> processes() const;
  /// Blocks until nothing of it runs; returns the seconds that took, or throws when it is more than `limit`.
  double wait_until_gone(milliseconds limit = patience) const;

private:
  std::string mark_;
  int out_ = -1, err_ = -1;  // files without a name
  int pid_ = 0, pidfd_ = -1;
  bool reaped_ = false;
};

/// Runs a program to its end.
program_end run(std::vector<std::string> words, const std::vector<std::string>& environment = {});

/// The lines of a text.
std::vector<std::string> lines_of(const std::string& text);

}  // namespace troupe::whole
