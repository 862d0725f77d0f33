#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

/// troupe run CONFIG …
struct run_request {
  std::string config_path;
  std::vector<std::string> overrides;  ///< "key=value": --set, then --workers and --grace as the keys they stand for
  std::string run_directory;           ///< empty: a new one below runs/
  bool dry_run = false;
};

/// troupe schedule NAME --stages P --microbatches M [--chunks V]
struct schedule_request {
  std::string name;
  std::uint32_t stages = 1, micro_batches = 1;
  bool json = false;
  std::string format = "text";  ///< text, csv, svg
  std::uint32_t chunks = 0;     ///< of a stage; 0: as many as the schedule is made for
};

/// troupe simulate --schedule NAME --stages P --microbatches M [--chunks V] --cost f=…,bi=…,bw=…,hop=…
struct simulate_request {
  std::string schedule;
  std::uint32_t stages = 1, micro_batches = 1, chunks = 0;
  std::string cost;  ///< as it was typed; empty: unit times
  bool json = false;
};

/// troupe simulate CONFIG [--set key=value]… [--trace FILE]
struct simulate_config_request {
  std::string config_path;
  std::vector<std::string> overrides;
  std::string trace;  ///< a file to write the step to, as a run's trace.json; empty: none
  bool json = false;
};

/// troupe plan CONFIG [--set key=value]… [--search]
struct plan_request {
  std::string config_path;
  std::vector<std::string> overrides;
  bool search = false;  ///< for the fastest layout, instead of the config's own
  bool json = false;
};

/// troupe doctor
struct doctor_request {
  bool json = false;
};

/// troupe trace show RUN_DIR
struct trace_show_request {
  std::string run_directory;
  std::string output;  ///< empty: RUN_DIR/trace.html
};

/// troupe worker, which the head starts; not for people. The run's key comes in the variable TROUPE_RUN_KEY, so that no
/// list of processes shows it.
struct worker_request {
  std::string head_address;
  std::uint16_t head_port = 0;
  std::uint32_t index = 0;
  int cells_descriptor = -1;  ///< inherited: shared memory of the progress cells
  int group_descriptor = -1;  ///< inherited: where the stage's tensor shards meet; -1: it has one
};

/// Nothing to run: a text for stdout (exit code 0: help, version) or for stderr (2: the command is wrong).
struct usage_request {
  int exit_code = 0;
  std::string text;
};

using command_request = std::variant<run_request, schedule_request, simulate_request, simulate_config_request,
                                     plan_request, doctor_request, trace_show_request, worker_request, usage_request>;

/// What the command line asks for. A wrong one is a `usage_request` with exit code 2 and the nearest right word.
command_request parse_command_line(int argc, const char* const* argv);

}  // namespace troupe
