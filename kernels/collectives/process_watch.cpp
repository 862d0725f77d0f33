#include "kernels/collectives/process_watch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace troupe::group {

namespace {

// Field 22 of /proc/PID/stat: when the process began. 0: there is none.
std::uint64_t start_of(std::uint32_t pid) {
  const int file = ::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[1024];
  const auto length = ::read(file, text, sizeof(text) - 1);
  ::close(file);
  if (length <= 0) return 0;
  text[length] = 0;
  const std::string_view line(text, static_cast<std::size_t>(length));
  auto at = line.rfind(')');  // a name may hold spaces and brackets
  for (int field = 2; at != line.npos && field < 22; ++field) at = line.find(' ', at + 1);
  return at == line.npos ? 0 : std::strtoull(text + at + 1, nullptr, 10);
}

std::uint8_t low_bits(std::uint64_t start) { return static_cast<std::uint8_t>(start); }

}  // namespace

holder this_process(std::uint32_t epoch) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return {epoch, low_bits(start_of(pid)), pid, phase::outside};
}

process_watch::~process_watch() {
  for (const auto& w : watched_)
    if (w.pidfd >= 0) ::close(w.pidfd);
}

bool process_watch::has_ended(std::uint32_t rank, holder who) {
  if (who.pid == 0) return false;
  auto& w = watched_[rank];
  if (w.who.pid != who.pid || w.who.born != who.born) {
    if (w.pidfd >= 0) ::close(w.pidfd);
    w = {who, static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0)), false};
    // Read after the pidfd was opened: where that is another process's by now, the start shows it.
    const auto error = errno;
    const auto start = start_of(who.pid);
    w.ended = w.pidfd < 0 ? error == ESRCH : start != 0 && low_bits(start) != who.born;
  }
  if (w.ended || w.pidfd < 0) return w.ended;
  pollfd one{w.pidfd, POLLIN, 0};
  return w.ended = ::poll(&one, 1, 0) == 1;
}

}  // namespace troupe::group
