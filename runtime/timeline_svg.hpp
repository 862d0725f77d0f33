#pragma once

#include <deque>
#include <string>

#include "actors/run_listener.hpp"

namespace troupe {

/// A step as one self-contained SVG picture: a row a shard, time to the right, forwards blue, backwards green (split ones:
/// green and orange), idle time blank; below it what the colours mean, and the bubble as measured and as the schedule's
/// ideal. Hovering over a box tells its name and duration.
std::string timeline_svg(const step_report& step);

/// A page with the picture of each step, newest first; needs nothing from outside.
std::string timeline_html(const std::deque<step_report>& steps, const std::string& title);

}  // namespace troupe
