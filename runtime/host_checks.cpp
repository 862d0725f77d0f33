#include "runtime/host_checks.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/statvfs.h>

namespace troupe {

namespace {

// UCX's shared-memory transport maps queues and bounce buffers of about this size for each worker process.
constexpr std::uint64_t shared_bytes_per_worker = std::uint64_t{8} << 20;

std::int64_t shards_of(const config& c) { return c.parallel.pp * c.parallel.dp * c.parallel.tp; }

std::int64_t usable_cores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

status check_cores(const config& c) {
  const auto shards = shards_of(c);
  const auto wanted = shards * c.parallel.threads_per_shard;
  const auto have = usable_cores();
  if (c.parallel.device != "cpu" || wanted <= have || c.parallel.oversubscribe) return {};
  const auto& p = c.parallel;
  const auto extents = shards == p.pp ? fmt::format("parallel.pp = {}", p.pp)
                                      : fmt::format("parallel.pp = {} times dp = {} times tp = {}", p.pp, p.dp, p.tp);
  return invalid(fmt::format(
      "{} with {} compute thread(s) a shard needs {} cores and this machine offers {}; lower parallel.{}, or "
      "set parallel.oversubscribe = true to share cores",
      extents, p.threads_per_shard, wanted, have, shards == p.pp ? "pp" : "pp, dp or tp"));
}

status check_shared_memory(const config& c) {
  if (c.parallel.workers != "processes" || shards_of(c) < 2 || c.transport.route == "tcp") return {};
  struct statvfs info {};
  const auto wanted = shared_bytes_per_worker * static_cast<std::uint64_t>(shards_of(c));
  if (::statvfs("/dev/shm", &info) != 0)
    return invalid(
        "/dev/shm is missing and shared memory between workers needs it; mount it, or set transport.route = \"tcp\"");
  const auto free = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  if (free >= wanted) return {};
  return invalid(
      fmt::format("/dev/shm has {} MiB free and {} workers need about {} MiB; enlarge it (mount -o remount,size=1G "
                  "/dev/shm), or set transport.route = \"tcp\"",
                  free >> 20, shards_of(c), wanted >> 20));
}

}  // namespace

status check_host(const config& c) {
  TROUPE_CHECK(check_cores(c));
  return check_shared_memory(c);
}

}  // namespace troupe
