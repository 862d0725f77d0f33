#include "runtime/text_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace troupe {

namespace fs = std::filesystem;

namespace {

status append_file(const fs::path& path, std::vector<std::uint8_t>& bytes) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return invalid(fmt::format("data.path: cannot read {}: {}", path.string(), std::strerror(errno)));
  in.seekg(0, std::ios::end);
  const auto size = static_cast<std::size_t>(in.tellg());
  in.seekg(0);
  const auto old = bytes.size();
  bytes.resize(old + size);
  in.read(reinterpret_cast<char*>(bytes.data() + old), static_cast<std::streamsize>(size));
  if (!in) return invalid(fmt::format("data.path: reading {} broke off", path.string()));
  return {};
}

}  // namespace

result<std::vector<std::uint8_t>> read_corpus(const std::string& path) {
  std::error_code why;
  const auto kind = fs::status(path, why);
  if (!fs::exists(kind))
    return invalid(fmt::format("data.path: {} does not exist; name a text file, or a folder of them", path));
  std::vector<fs::path> files;
  if (fs::is_directory(kind)) {
    for (const auto& entry : fs::directory_iterator(path, why))
      if (entry.is_regular_file(why) && !entry.is_symlink(why)) files.push_back(entry.path());
    if (why) return invalid(fmt::format("data.path: cannot list {}: {}", path, why.message()));
    std::sort(files.begin(), files.end());
  } else if (fs::is_regular_file(kind)) {
    files.push_back(path);
  } else {
    return invalid(fmt::format("data.path: {} is neither a file nor a folder", path));
  }
  std::vector<std::uint8_t> bytes;
  for (const auto& f : files) TROUPE_CHECK(append_file(f, bytes));
  if (bytes.empty())
    return invalid(fmt::format("data.path: {} holds no text; name a file with some, or a folder of them", path));
  return bytes;
}

result<std::unique_ptr<data_source>> text_source::open(const model_settings& settings) {
  TROUPE_TRY(auto tokens, read_corpus(settings.data_path));
  const auto needed = static_cast<std::size_t>(settings.seq_len) + 2;
  if (tokens.size() < needed)
    return invalid(
        fmt::format("data.path: {} has {} tokens and model.seq_len = {} needs at least {}; use a longer text or a "
                    "smaller model.seq_len",
                    settings.data_path, tokens.size(), settings.seq_len, needed));
  return std::unique_ptr<data_source>(new text_source(settings, std::move(tokens)));
}

status text_source::read(std::uint64_t step, std::uint32_t micro_batch, const tensor& input, const tensor& target) {
  const auto length = static_cast<std::uint64_t>(settings_.seq_len);
  const auto starts = tokens_.size() - length - 1;
  for (std::int64_t b = 0; b < settings_.micro_batch; ++b) {
    const auto sequence = step * static_cast<std::uint64_t>(settings_.global_batch) +
                          static_cast<std::uint64_t>(micro_batch) * static_cast<std::uint64_t>(settings_.micro_batch) +
                          static_cast<std::uint64_t>(b);
    const auto* from = tokens_.data() + sequence * length % starts;
    if (input) std::copy_n(from, length, input.data<std::int32_t>() + b * settings_.seq_len);
    if (target) std::copy_n(from + 1, length, target.data<std::int32_t>() + b * settings_.seq_len);
  }
  return {};
}

}  // namespace troupe
