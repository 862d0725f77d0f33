#pragma once

#include <deque>
#include <string>
#include <vector>

#include "actors/run_listener.hpp"

namespace troupe {

/// Timelines as one self-contained SVG picture: a row a shard, time to the right, forwards blue, backwards green (split
/// ones: green and orange), later chunks paler, idle time blank. `title` above; below what the colours mean, and
/// `closing_words`. Hovering over a box tells its name and duration. The words must be free of XML's marks.
std::string timeline_svg(const std::vector<shard_timeline>& lines, const std::string& title,
                         const std::string& closing_words);

/// A step, with the bubble as measured and as the schedule's ideal.
std::string timeline_svg(const step_report& step);

/// A page with the picture of each step, newest first; needs nothing from outside.
std::string timeline_html(const std::deque<step_report>& steps, const std::string& title);

}  // namespace troupe
