#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "run_files.hpp"

namespace troupe::whole {

/// A folder of a test's own, gone with it. Holds `corpus.txt`, a small text, and `tiny.toml`, a GPT that takes some
/// milliseconds a step: 2 layers, hidden 32, 2 heads, 32 tokens, 4 micro-batches of 2 sequences, 20 steps.
class scratch_folder {
public:
  scratch_folder();
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder();

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  /// Writes a file; returns its path.
  std::string write(const std::string& name, const std::string& text) const;

  /// The command that runs the tiny GPT into `run_directory` with these keys ("train.steps=5"), and further words.
  std::vector<std::string> troupe_run(const std::filesystem::path& run_directory,
                                      const std::vector<std::string>& keys = {},
                                      const std::vector<std::string>& words = {}) const;

private:
  std::filesystem::path path_;
};

/// `words[0]` with `keys` as --set options.
std::vector<std::string> with_keys(std::vector<std::string> words, const std::vector<std::string>& keys);

/// The figures of one run of the tiny GPT with these keys; fails the test where the run does, or is not of `steps`
/// steps.
trajectory train(const scratch_folder& scratch, const std::vector<std::string>& keys, std::size_t steps);

/// The program under test.
std::string troupe_program();

/// For comparisons whose failure shall print what was left.
inline const std::vector<std::string> nothing;

/// Shared memory with a name that no living process uses and that was not there before: what a run forgot.
class shared_memory_watch {
public:
  shared_memory_watch() : before_(all()) {}
  std::vector<std::string> left() const;

private:
  static std::vector<std::string> all();
  std::vector<std::string> before_;
};

}  // namespace troupe::whole
