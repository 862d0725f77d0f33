#include "tiny_run.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

namespace troupe::whole {

namespace {

namespace fs = std::filesystem;

// Words in an order that a small generator chooses: text enough to learn from, the same everywhere.
std::string small_text() {
  constexpr const char* words[] = {"the", "stage", "sends", "a", "gradient", "to", "its", "neighbour", "and", "waits"};
  std::string text;
  std::uint32_t x = 12345;
  while (text.size() < 6000) {
    x = x * 1664525U + 1013904223U;
    text += fmt::format("{}{}", words[(x >> 16) % std::size(words)], (x >> 26) % 8 == 0 ? ".\n" : " ");
  }
  return text;
}

constexpr const char* tiny_config = R"([model]
layers = 2
hidden = 32
heads = 2
seq_len = 32
[data]
path = "{}"
[parallel]
oversubscribe = true
[train]
steps = 20
global_batch = 8
micro_batch = 2
lr = 3e-3
)";

// Every file that some process has open or mapped below /dev/shm, by name.
std::set<std::string> in_use() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream maps(entry.path() / "maps");
    for (std::string line; std::getline(maps, line);)
      if (const auto at = line.find("/dev/shm/"); at != line.npos)
        names.insert(line.substr(at + 9, line.find(' ', at) - at - 9));
  }
  return names;
}

// System V segments that no process has attached.
std::vector<std::string> idle_segments() {
  std::vector<std::string> names;
  std::ifstream table("/proc/sysvipc/shm");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream in(line);
    std::string key, id, mode, size, creator, last, attached;
    in >> key >> id >> mode >> size >> creator >> last >> attached;
    if (attached == "0") names.push_back("System V segment " + id);
  }
  return names;
}

}  // namespace

scratch_folder::scratch_folder() {
  auto name = (fs::temp_directory_path() / "troupe-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
  path_ = fs::canonical(name);
  const auto corpus = write("corpus.txt", small_text());
  write("tiny.toml", fmt::format(fmt::runtime(tiny_config), corpus));
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string scratch_folder::write(const std::string& name, const std::string& text) const {
  std::ofstream(path_ / name, std::ios::binary) << text;
  return (path_ / name).string();
}

std::vector<std::string> scratch_folder::troupe_run(const fs::path& run_directory, const std::vector<std::string>& keys,
                                                    const std::vector<std::string>& words) const {
  auto all =
      with_keys({troupe_program(), "run", (path_ / "tiny.toml").string(), "--run-dir", run_directory.string()}, keys);
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

std::vector<std::string> with_keys(std::vector<std::string> words, const std::vector<std::string>& keys) {
  for (const auto& key : keys) words.insert(words.end(), {"--set", key});
  return words;
}

trajectory train(const scratch_folder& scratch, const std::vector<std::string>& keys, std::size_t steps) {
  static int count = 0;
  const auto directory = scratch / fmt::format("trained-{}", ++count);
  const auto end = run(scratch.troupe_run(directory, keys));
  if (end.code != 0) throw std::runtime_error(fmt::format("the run ended with code {}: {}", end.code, end.err));
  auto figures = read_trajectory(directory);
  if (figures.loss_bits.size() != steps)
    throw std::runtime_error(fmt::format("{} steps in place of {}", figures.loss_bits.size(), steps));
  return figures;
}

std::string troupe_program() { return TROUPE_PROGRAM; }

std::vector<std::string> shared_memory_watch::all() {
  auto names = idle_segments();
  for (const auto& entry : fs::directory_iterator("/dev/shm")) names.push_back(entry.path().filename().string());
  return names;
}

// Other programs may work on this machine: a name that is in use, or gone at a second look, is none that was forgotten.
std::vector<std::string> shared_memory_watch::left() const {
  auto names = all();
  const auto used = in_use();
  const auto later = all();
  const auto among = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  std::erase_if(names,
                [&](const auto& name) { return used.contains(name) || among(before_, name) || !among(later, name); });
  return names;
}

}  // namespace troupe::whole
