#pragma once

#include "actors/schedule/schedule.hpp"

namespace troupe {

/// Proves, before anything starts, that a run of `s` ends:
/// - every micro-batch passes every chunk once forward, and once backward, whole or as I and then W;
/// - every action's inputs come from an action that ends before it, whatever each of them takes: no order of events can
/// make
///   the stages wait for each other;
/// - no stage holds more activations than `most_in_flight` says.
/// Takes time and memory in proportion to the actions.
///
/// Errors: `invalid_argument` with the first violation: stage, action, and what it lacks.
status validate(const schedule& s);

}  // namespace troupe
