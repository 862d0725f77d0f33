#include "runtime/run_log.hpp"

#include <fmt/format.h>

#include "runtime/trace.hpp"

namespace troupe {
namespace {

bool ends_run(event_kind kind) {
  return kind == event_kind::finished || kind == event_kind::interrupted || kind == event_kind::gave_up;
}

}  // namespace

void run_log::step_committed(const step_report& report) {
  directory_.keep();
  warn_once(directory_.append_metrics(report), metrics_warned_);
  if (trace_steps_ > 0) last_steps_.push_back(report);
  if (last_steps_.size() > trace_steps_) last_steps_.pop_front();
  terminal_.step_committed(report);
}

void run_log::event(const run_event& what) {
  terminal_.event(what);  // first: what went wrong must be seen even where the disk hangs
  if (!ends_run(what.kind)) directory_.keep();
  warn_once(directory_.append_event(what), events_warned_);
  if (trace_steps_ > 0 && (ends_run(what.kind) || what.kind == event_kind::down))
    warn_once(directory_.write_trace(trace_json(last_steps_)), trace_warned_);
}

void run_log::warn_once(const status& outcome, bool& warned) {
  if (outcome || warned) return;
  warned = true;
  terminal_.note(fmt::format("warning: {}; the run goes on, this file stays incomplete", outcome.error().where));
}

}  // namespace troupe
