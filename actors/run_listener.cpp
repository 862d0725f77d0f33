#include "actors/run_listener.hpp"

#include <algorithm>
#include <limits>

namespace troupe {

std::string_view to_string(event_kind kind) {
  switch (kind) {
    case event_kind::started:
      return "started";
    case event_kind::down:
      return "down";
    case event_kind::restarted:
      return "restarted";
    case event_kind::replayed:
      return "replayed";
    case event_kind::committed:
      return "committed";
    case event_kind::checkpointed:
      return "checkpointed";
    case event_kind::finished:
      return "finished";
    case event_kind::interrupted:
      return "interrupted";
    case event_kind::gave_up:
      return "gave_up";
  }
  return "unknown";
}

double measured_bubble(const std::vector<shard_timeline>& timelines) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0, busy = 0;
  for (const auto& t : timelines)
    for (const auto& a : t.actions) {
      first = std::min(first, a.start_ns);
      last = std::max(last, a.end_ns);
      busy += a.end_ns - a.start_ns;
    }
  if (last <= first) return 0;
  return 1 - static_cast<double>(busy) / (static_cast<double>(last - first) * static_cast<double>(timelines.size()));
}

}  // namespace troupe
