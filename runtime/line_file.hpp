#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/core/result.hpp"

namespace troupe {

/// A file of lines that only grows. A line that was not written whole is taken back, so that every line in the file is
/// whole. Owns a file descriptor; move-only.
class line_file {
public:
  /// Creates `path`, which must not exist yet.
  /// Errors: `system_failure` with errno.
  static result<line_file> create(const std::filesystem::path& path);

  line_file(line_file&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), bytes_(other.bytes_) {}
  line_file& operator=(line_file&&) = delete;
  ~line_file();

  /// Appends `line` and a line end. Errors: `system_failure` with errno (disk full); the next call may succeed.
  status append(std::string_view line);

private:
  line_file(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::filesystem::path path_;
  int descriptor_;
  std::int64_t bytes_ = 0;  // in whole lines
};

/// Puts `text` in place of the file `path` in one instant: a reader sees the old file or the new one, never a part.
/// Errors: `system_failure` with errno; `path` is then as before.
status replace_file(const std::filesystem::path& path, std::string_view text);

/// `system_failure` of `path` with the present errno and its text.
error file_error(const std::filesystem::path& path, std::string_view doing);

}  // namespace troupe
