#include "runtime/line_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace troupe {
namespace {

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const auto n = ::write(descriptor, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

constexpr int open_to_write = O_WRONLY | O_CREAT | O_CLOEXEC;

}  // namespace

error file_error(const std::filesystem::path& path, std::string_view doing) {
  return {errc::system_failure, fmt::format("{}: cannot {}: {}", path.string(), doing, std::strerror(errno)), errno};
}

result<line_file> line_file::create(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), open_to_write | O_APPEND | O_EXCL, 0644);
  if (descriptor < 0) return file_error(path, "create");
  return line_file(path, descriptor);
}

line_file::~line_file() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

status line_file::append(std::string_view line) {
  const auto text = fmt::format("{}\n", line);
  if (!write_all(descriptor_, text)) {
    auto failure = file_error(path_, "write");
    [[maybe_unused]] const int taken_back = ::ftruncate(descriptor_, bytes_);
    return failure;
  }
  bytes_ += static_cast<std::int64_t>(text.size());
  return {};
}

status replace_file(const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path draft = path.string() + ".new";
  const int descriptor = ::open(draft.c_str(), open_to_write | O_TRUNC, 0644);
  if (descriptor < 0) return file_error(path, "write");
  const bool written = write_all(descriptor, text) && ::fsync(descriptor) == 0;
  const bool replaced = written && ::rename(draft.c_str(), path.c_str()) == 0;
  auto outcome = replaced ? status() : status(file_error(path, "write"));
  ::close(descriptor);
  if (!replaced) ::unlink(draft.c_str());
  return outcome;
}

}  // namespace troupe
