#include "runtime/forgotten_segments.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe {

namespace {

namespace fs = std::filesystem;

bool nobody_has_it(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return false;
  struct stat info {};
  const bool idle = ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
                    ::fcntl(descriptor, F_SETLEASE, F_WRLCK) == 0;
  ::close(descriptor);  // gives the lease back
  return idle;
}

}  // namespace

int remove_forgotten_segments(const fs::path& folder) {
  int removed = 0;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code))
    if (entry->path().filename().string().starts_with("ucx_shm_posix_") && nobody_has_it(entry->path()))
      removed += ::unlink(entry->path().c_str()) == 0;
  return removed;
}

}  // namespace troupe
