#include "run_files.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace troupe::whole {

namespace {

namespace fs = std::filesystem;
using steady = std::chrono::steady_clock;

// The digits of one number in a line of metrics.jsonl.
std::string text_of(const std::string& line, std::string_view key) {
  const auto label = fmt::format("\"{}\":", key);
  const auto from = line.find(label);
  if (from == line.npos) throw std::runtime_error(fmt::format("no {} in {}", key, line));
  return line.substr(from + label.size(), line.find_first_of(",}", from) - from - label.size());
}

}  // namespace

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<nlohmann::json> read_json_lines(const fs::path& file, bool still_written) {
  auto text = read_text(file);
  if (!text.empty() && text.back() != '\n') {
    if (!still_written) throw std::runtime_error(fmt::format("{} ends in the middle of a line", file.string()));
    text.resize(text.rfind('\n') + 1);  // npos + 1 is 0: no line is whole yet
  }
  std::vector<nlohmann::json> parsed;
  for (const auto& line : lines_of(text)) parsed.push_back(nlohmann::json::parse(line));
  return parsed;
}

trajectory read_trajectory(const fs::path& run_directory) {
  trajectory t;
  for (const auto& line : lines_of(read_text(run_directory / "metrics.jsonl"))) {
    const auto figures = nlohmann::json::parse(line);
    t.loss_bits.push_back(std::bit_cast<std::uint64_t>(figures.at("loss").get<double>()));
    t.norm_bits.push_back(std::bit_cast<std::uint64_t>(figures.at("grad_norm").get<double>()));
    t.loss_text.push_back(text_of(line, "loss"));
    t.norm_text.push_back(text_of(line, "grad_norm"));
  }
  return t;
}

run_files::run_files(fs::path directory)
    : directory_(std::move(directory)), inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  fs::create_directories(directory_);
  if (::inotify_add_watch(inotify_, directory_.c_str(), IN_CREATE | IN_MODIFY | IN_MOVED_TO) < 0)
    throw std::runtime_error(fmt::format("cannot watch {}", directory_.string()));
}

run_files::~run_files() { ::close(inotify_); }

bool run_files::has_event(std::string_view kind) const {
  const auto all = events();
  return std::any_of(all.begin(), all.end(), [&](const auto& e) { return e.at("kind") == kind; });
}

void run_files::wait_until(const program& of, const std::function<bool()>& seen) const {
  const auto end = steady::now() + patience;
  char changes[4096];
  while (true) {
    while (::read(inotify_, changes, sizeof(changes)) > 0) {
    }
    if (seen()) return;
    pollfd both[] = {{inotify_, POLLIN, 0}, {of.pidfd(), POLLIN, 0}};
    ::poll(both, 2, static_cast<int>(std::chrono::ceil<milliseconds>(end - steady::now()).count()));
    if (both[0].revents != 0) continue;
    if (seen()) return;
    throw std::runtime_error(fmt::format("what the test waits for did not happen; the program wrote:\n{}", of.err()));
  }
}

void run_files::wait_for_steps(const program& of, std::size_t steps) const {
  wait_until(of, [&] { return metrics().size() >= steps; });
}

int run_files::wait_for_worker(const program& of, unsigned index) const {
  const auto log = directory_ / fmt::format("worker-{}.log", index);
  wait_until(of, [&] { return fs::exists(log); });
  // The log is there an instant before it is the process's descriptor 1; for that there is no event.
  for (const auto end = steady::now() + patience; steady::now() < end; ::sched_yield())
    for (const auto& p : of.processes())
      if (p.standard_output == fs::canonical(log) && p.pid != of.pid()) return p.pid;
  throw std::runtime_error(fmt::format("no process writes {}", log.string()));
}

}  // namespace troupe::whole
