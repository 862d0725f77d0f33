#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "actors/run_listener.hpp"
#include "kernels/core/result.hpp"
#include "runtime/line_file.hpp"

namespace troupe {

/// The folder of one run: config.toml (resolved), metrics.jsonl (a line a step), events.jsonl, trace.json,
/// worker-N.log. Until `keep()` it is a draft: its end takes away what the run made. Used by one thread at a time.
class run_directory {
public:
  /// Makes the folder `path`, which may exist when it is empty; "" is a new `runs/<UTC time>-<4 hex digits>`.
  /// Errors: `invalid_argument` (not empty, or no folder), `system_failure` with errno (cannot be made or written).
  static result<run_directory> create(const std::string& path, std::chrono::system_clock::time_point now);

  run_directory(run_directory&& other) noexcept;
  run_directory& operator=(run_directory&&) = delete;
  ~run_directory();

  const std::filesystem::path& path() const noexcept { return path_; }
  /// The run has started: what is written from now on stays.
  void keep() noexcept { draft_ = false; }

  // Errors of all: `system_failure` with errno; the files stay whole and the next call may succeed.
  status write_config(std::string_view toml) { return replace_file(path_ / "config.toml", toml); }
  status write_trace(std::string_view json) { return replace_file(path_ / "trace.json", json); }
  status append_metrics(const step_report& report);
  status append_event(const run_event& event);

private:
  run_directory(std::filesystem::path path, std::vector<std::filesystem::path> made, line_file metrics,
                line_file events);

  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  // folders that were not there before, outermost first
  line_file metrics_, events_;
  bool draft_ = true;
};

}  // namespace troupe
