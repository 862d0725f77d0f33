#include "runtime/run_directory.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <random>

#include "runtime/run_records.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

fs::path default_path(std::chrono::system_clock::time_point now) {
  const auto time = fmt::gmtime(std::chrono::system_clock::to_time_t(now));
  return fs::path("runs") / fmt::format("{:%Y%m%d-%H%M%S}-{:04x}", time, std::random_device()() & 0xffffU);
}

/// The parts of `path` that are not there yet, outermost first.
std::vector<fs::path> missing_folders(fs::path path) {
  std::vector<fs::path> missing;
  std::error_code code;
  for (; !path.empty() && !fs::exists(path, code); path = path.parent_path()) missing.insert(missing.begin(), path);
  return missing;
}

void remove_empty(const std::vector<fs::path>& folders) {
  std::error_code ignored;
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) fs::remove(*folder, ignored);
}

/// Whether a run writes such a file; a folder that was given to it may meanwhile hold others.
bool is_ours(const fs::directory_entry& entry) {
  const auto name = entry.path().filename().string();
  constexpr std::string_view files[] = {"config.toml", "metrics.jsonl", "events.jsonl", "trace.json"};
  return entry.is_regular_file() && (std::ranges::find(files, name) != std::end(files) || name.starts_with("worker-"));
}

error not_empty(const fs::path& path) {
  return invalid(fmt::format("{}: is not empty; choose a new folder as the run directory", path.string()));
}

status check_empty(const fs::path& path) {
  std::error_code code;
  if (!fs::exists(path, code)) return {};
  if (!fs::is_directory(path, code))
    return invalid(fmt::format("{}: is a file; choose a new folder as the run directory", path.string()));
  const bool empty = fs::is_empty(path, code);
  if (code) return error{errc::system_failure, fmt::format("{}: {}", path.string(), code.message()), code.value()};
  if (!empty) return not_empty(path);
  return {};
}

}  // namespace

result<run_directory> run_directory::create(const std::string& given, std::chrono::system_clock::time_point now) {
  // "runs/x/" has an empty last part, which is no folder of its own.
  fs::path path = given.empty() ? default_path(now) : fs::path(given).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  TROUPE_CHECK(check_empty(path));
  auto made = missing_folders(path);
  std::error_code code;
  fs::create_directories(path, code);
  if (code) {
    remove_empty(made);
    return error{
        errc::system_failure,
        fmt::format("{}: cannot create: {}; choose another folder with --run-dir", path.string(), code.message()),
        code.value()};
  }
  auto metrics = line_file::create(path / "metrics.jsonl");
  if (!metrics) {
    // Another run that began at the same time has it: what lies there now is that one's.
    if (metrics.error().native == EEXIST) return not_empty(path);
    remove_empty(made);
    return std::move(metrics).error();
  }
  auto events = line_file::create(path / "events.jsonl");
  if (!events) {
    fs::remove(path / "metrics.jsonl", code);
    remove_empty(made);
    return std::move(events).error();
  }
  return run_directory(std::move(path), std::move(made), *std::move(metrics), *std::move(events));
}

run_directory::run_directory(fs::path path, std::vector<fs::path> made, line_file metrics, line_file events)
    : path_(std::move(path)), made_(std::move(made)), metrics_(std::move(metrics)), events_(std::move(events)) {}

run_directory::run_directory(run_directory&& other) noexcept
    : path_(std::move(other.path_)),
      made_(std::move(other.made_)),
      metrics_(std::move(other.metrics_)),
      events_(std::move(other.events_)),
      draft_(std::exchange(other.draft_, false)) {}

run_directory::~run_directory() {
  if (!draft_) return;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_, ignored))
    if (is_ours(entry)) fs::remove(entry.path(), ignored);
  remove_empty(made_);
}

status run_directory::append_metrics(const step_report& report) { return metrics_.append(metrics_line(report)); }

status run_directory::append_event(const run_event& event) { return events_.append(event_line(event)); }

}  // namespace troupe
