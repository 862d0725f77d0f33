#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

enum class finding_level : std::uint8_t { ok, warn, missing };
std::string_view to_string(finding_level level);

/// One thing that a run may need, as this machine has it.
struct finding {
  std::string what;  ///< "shared memory"
  finding_level level = finding_level::ok;
  bool needed = true;  ///< false: only some configs use it
  std::string found;   ///< with units
  std::string remedy;  ///< what to do, with the Debian package where one brings it; empty where the level is ok
};

struct doctor_report {
  std::vector<finding> findings;
  std::string advice;  ///< the one sentence to act on
};

/// Looks at the machine: cores, memory, shared memory, limits, loopback, UCX, CUDA, NCCL, what the kernel allows, and
/// whether the current folder can hold a run. Changes nothing that lasts.
doctor_report examine_machine();

/// The most urgent of the findings as one sentence.
std::string advise(const std::vector<finding>& findings);

/// A line a finding, then the advice.
std::string to_text(const doctor_report& report);
std::string to_json(const doctor_report& report);

}  // namespace troupe
