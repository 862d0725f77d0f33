#include "runtime/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/commands.hpp"
#include "runtime/machine_checks.hpp"

namespace troupe {

std::string_view to_string(finding_level level) {
  switch (level) {
    case finding_level::ok:
      return "ok";
    case finding_level::warn:
      return "warn";
    case finding_level::missing:
      return "missing";
  }
  return "unknown";
}

doctor_report examine_machine() {
  doctor_report report;
  report.findings = {check_cores(),         check_memory(),   check_shared_memory(), check_open_files(),
                     check_locked_memory(), check_loopback(), check_pidfd(),         check_ptrace_scope(),
                     check_run_folder(),    check_ucx(),      check_cuda(),          check_nccl()};
  report.advice = advise(report.findings);
  return report;
}

std::string advise(const std::vector<finding>& findings) {
  for (const auto level : {finding_level::missing, finding_level::warn})
    for (const auto& f : findings)
      if (f.needed && f.level == level) return fmt::format("Look at {} first: {}.", f.what, f.remedy);
  return "This machine is ready: troupe run examples/gpt/default.toml.";
}

std::string to_text(const doctor_report& report) {
  std::string text;
  for (const auto& f : report.findings) {
    text += fmt::format("{:<8} {:<14} {}\n", to_string(f.level), f.what, f.found);
    if (!f.remedy.empty()) text += fmt::format("{:<23} → {}\n", "", f.remedy);
  }
  return text + "\n" + report.advice + "\n";
}

std::string to_json(const doctor_report& report) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& f : report.findings)
    list.push_back({{"what", f.what},
                    {"level", std::string(to_string(f.level))},
                    {"needed", f.needed},
                    {"found", f.found},
                    {"remedy", f.remedy}});
  return nlohmann::ordered_json{{"findings", std::move(list)}, {"advice", report.advice}}.dump();
}

int doctor_command(const doctor_request& request, std::ostream& out, std::ostream& err) {
  const auto report = examine_machine();
  if (request.json)
    out << to_json(report) << '\n';
  else
    err << to_text(report);
  return 0;
}

}  // namespace troupe
