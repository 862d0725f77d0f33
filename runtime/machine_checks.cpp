#include "runtime/machine_checks.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace troupe {
namespace {

constexpr std::uint64_t mib = 1U << 20;
constexpr std::uint64_t wanted_shared = 64 * mib, wanted_memory = 1024 * mib;
constexpr rlim_t wanted_files = 1024;

finding good(std::string what, std::string found) {
  return {std::move(what), finding_level::ok, true, std::move(found), ""};
}

finding bad(finding_level level, std::string what, std::string found, std::string remedy) {
  return {std::move(what), level, true, std::move(found), std::move(remedy)};
}

/// The figure of a line such as "MemAvailable:   1234 kB", in bytes; 0 where there is none.
std::uint64_t memory_figure(std::string_view name) {
  std::ifstream file("/proc/meminfo");
  std::string word, unit;
  for (std::uint64_t kib = 0; file >> word >> kib; std::getline(file, unit))
    if (word == name) return kib * 1024;
  return 0;
}

std::string limit_text(rlim_t limit) { return limit == RLIM_INFINITY ? "unlimited" : fmt::format("{}", limit); }

}  // namespace

finding check_cores() {
  cpu_set_t set;
  const int cores = ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  const auto found = fmt::format("{} usable", cores);
  if (cores >= 2) return good("cores", found);
  return bad(finding_level::warn, "cores", found,
             "a pipeline wants a core for each stage; set parallel.oversubscribe = true to share this one");
}

finding check_memory() {
  const auto available = memory_figure("MemAvailable:"), total = memory_figure("MemTotal:");
  const auto found = fmt::format("{} of {} MiB available", available / mib, total / mib);
  if (available >= wanted_memory) return good("memory", found);
  return bad(finding_level::warn, "memory", found,
             "close other programs, or make the model smaller (model.hidden, model.layers)");
}

finding check_shared_memory() {
  struct statvfs info {};
  if (::statvfs("/dev/shm", &info) != 0)
    return bad(finding_level::missing, "shared memory", fmt::format("/dev/shm: {}", std::strerror(errno)),
               "mount -t tmpfs tmpfs /dev/shm, or set transport.route = \"tcp\"");
  const auto free = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  const auto total = static_cast<std::uint64_t>(info.f_blocks) * info.f_frsize;
  const auto found = fmt::format("/dev/shm: {} of {} MiB free", free / mib, total / mib);
  if (free >= wanted_shared) return good("shared memory", found);
  return bad(finding_level::warn, "shared memory", found,
             "mount -o remount,size=1G /dev/shm (in a container: --shm-size=1g), or set transport.route = \"tcp\"");
}

finding check_open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto found = fmt::format("{} (may be raised to {})", limit_text(limit.rlim_cur), limit_text(limit.rlim_max));
  if (limit.rlim_cur >= wanted_files) return good("open files", found);
  return bad(finding_level::warn, "open files", found, fmt::format("ulimit -n {}", wanted_files));
}

finding check_locked_memory() {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const auto found = limit.rlim_cur == RLIM_INFINITY
                         ? std::string("unlimited")
                         : fmt::format("{} MiB (RDMA alone needs more)", limit.rlim_cur / mib);
  return good("locked memory", found);
}

finding check_loopback() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound = descriptor >= 0 &&
                     ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
                     ::listen(descriptor, 1) == 0;
  const int code = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (bound) return good("loopback", "a port on 127.0.0.1 can be opened");
  return bad(finding_level::missing, "loopback", fmt::format("127.0.0.1: {}", std::strerror(code)),
             "ip link set lo up (package iproute2)");
}

finding check_pidfd() {
  const auto descriptor = ::syscall(SYS_pidfd_open, ::getpid(), 0);
  if (descriptor < 0)
    return bad(
        finding_level::missing, "pidfd", fmt::format("pidfd_open: {}", std::strerror(errno)),
        "a kernel of at least 5.3, or a sandbox that allows pidfd_open; parallel.workers = \"threads\" does without");
  ::close(static_cast<int>(descriptor));
  return good("pidfd", "a worker's end is noticed at once");
}

finding check_ptrace_scope() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  if (!(file >> scope) || scope == 0) return good("ptrace scope", "processes may copy from each other's memory");
  auto f = bad(finding_level::warn, "ptrace scope", fmt::format("{}", scope),
               "sysctl kernel.yama.ptrace_scope=0 lets UCX copy large tensors once instead of twice");
  f.needed = false;
  return f;
}

finding check_run_folder() {
  std::error_code code;
  const auto here = std::filesystem::current_path(code).string();
  // access() tells root that everything may be written; only trying tells the truth.
  char probe[] = "troupe-doctor-XXXXXX";
  const bool writable = ::mkdtemp(probe) != nullptr;
  const int why = errno;
  if (writable) ::rmdir(probe);
  if (writable) return good("run folder", fmt::format("{} is writable", here));
  return bad(finding_level::missing, "run folder", fmt::format("{}: {}", here, std::strerror(why)),
             "go to a folder of yours, or name one with --run-dir");
}

}  // namespace troupe
