#pragma once

#include <filesystem>

namespace troupe {

/// Removes the shared memory of workers that were killed while they started. UCX gives a segment a name in /dev/shm,
/// fills it (some milliseconds) and then takes the name away; a death in between leaves some MiB of memory until the
/// next boot. Only UCX's names, only files of this user, and only those that no process at all has open or mapped: the
/// kernel says so by granting a write lease, so that what another program is just making stays. Returns how many it
/// removed. Needs Linux's file leases; where they are switched off it removes nothing.
int remove_forgotten_segments(const std::filesystem::path& folder = "/dev/shm");

}  // namespace troupe
