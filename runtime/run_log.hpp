#pragma once

#include <cstddef>
#include <deque>

#include "actors/run_listener.hpp"
#include "runtime/progress.hpp"
#include "runtime/run_directory.hpp"

namespace troupe {

/// Everything a run leaves: its directory's files and what the terminal shows. A file that cannot be written (disk
/// full) costs one warning and never the run. What it refers to must outlive it.
class run_log final : public run_listener {
public:
  /// `trace_steps`: how many of the last steps trace.json holds; 0: no trace.
  run_log(run_directory& directory, progress& terminal, std::size_t trace_steps)
      : directory_(directory), terminal_(terminal), trace_steps_(trace_steps) {}

  void step_committed(const step_report& report) override;
  /// Writes trace.json when the run ends and when a shard is down. Keeps the directory from the first thing on that
  /// happened, a failure to start aside.
  void event(const run_event& what) override;

private:
  void warn_once(const status& outcome, bool& warned);

  run_directory& directory_;
  progress& terminal_;
  std::size_t trace_steps_;
  std::deque<step_report> last_steps_;
  bool metrics_warned_ = false, events_warned_ = false, trace_warned_ = false;
};

}  // namespace troupe
