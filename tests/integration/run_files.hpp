#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "program.hpp"

namespace troupe::whole {

/// What a file holds; empty where there is none.
std::string read_text(const std::filesystem::path& file);

/// The lines of a JSON-lines file, parsed. Throws where one is not whole: a run's files may never hold a broken line. A
/// last line without its end is not there yet and is left out while the run still writes.
std::vector<nlohmann::json> read_json_lines(const std::filesystem::path& file, bool still_written = false);

/// The figures of a run that must not depend on how it ran, to the bit: the losses and norms of metrics.jsonl.
struct trajectory {
  std::vector<std::uint64_t> loss_bits, norm_bits;  ///< of the doubles, a step each
  std::vector<std::string> loss_text, norm_text;    ///< as written
  bool operator==(const trajectory&) const = default;
};
trajectory read_trajectory(const std::filesystem::path& run_directory);

/// The run directory of a run that is about to start, and its growing files. Makes the folder, so that its watch misses
/// nothing.
class run_files {
public:
  explicit run_files(std::filesystem::path directory);
  run_files(const run_files&) = delete;
  run_files& operator=(const run_files&) = delete;
  ~run_files();

  const std::filesystem::path& directory() const noexcept { return directory_; }
  std::vector<nlohmann::json> metrics() const { return read_json_lines(directory_ / "metrics.jsonl", true); }
  std::vector<nlohmann::json> events() const { return read_json_lines(directory_ / "events.jsonl", true); }
  bool has_event(std::string_view kind) const;

  /// Blocks until `seen` holds, looking anew whenever a file of the run changes. Throws `std::runtime_error` with what
  /// the program wrote when it ends before that, or never gets there.
  void wait_until(const program& of, const std::function<bool()>& seen) const;
  void wait_for_steps(const program& of, std::size_t steps) const;
  /// The pid of worker `index` once it has been started, which may be before it runs any code of its own.
  int wait_for_worker(const program& of, unsigned index) const;

private:
  std::filesystem::path directory_;
  int inotify_ = -1;
};

}  // namespace troupe::whole
