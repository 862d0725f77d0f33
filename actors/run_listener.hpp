#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actors/schedule/schedule.hpp"
#include "transport/tensor_message.hpp"

namespace troupe {

/// When one action ran, in nanoseconds of CLOCK_MONOTONIC.
struct action_record {
  action what;
  std::int64_t start_ns = 0, end_ns = 0;
};

/// What one shard reports of one step. `actions` in running order.
struct shard_timeline {
  shard_id shard;
  std::vector<action_record> actions;
  action_record update;  ///< the optimizer's update that ended the step before (0 in the first step): its times only
};

/// A committed step, as metrics.jsonl writes it.
struct step_report {
  std::uint64_t step = 0;  ///< from 0
  double loss = 0;         ///< mean over the step's target rows
  double grad_norm = 0;    ///< global, before clipping
  double learning_rate = 0;
  double tokens_per_s = 0;
  double step_s = 0;        ///< from the commit before (the first step: from the grant) to this commit
  double bubble = 0;        ///< 1 − busy / (stages · makespan) over this step's actions; update and commit excluded
  double bubble_ideal = 0;  ///< the schedule's in unit times
  std::uint32_t restarts = 0;
  std::vector<shard_timeline> timelines;  ///< by stage
};

enum class event_kind : std::uint8_t {
  started,
  down,
  restarted,
  replayed,
  committed,
  checkpointed,
  finished,
  interrupted,
  gave_up
};
std::string_view to_string(event_kind kind);

struct run_event {
  event_kind kind = event_kind::started;
  std::chrono::system_clock::time_point time;
  shard_id shard;
  bool about_shard = true;  ///< false: about the run as a whole
  std::uint32_t incarnation = 0;
  std::string text;  ///< one sentence for a person; of `down`, the culprit sentence
};

/// Told what happens in a run. Called from one thread at a time, in order; must return soon.
class run_listener {
public:
  virtual ~run_listener() = default;
  virtual void step_committed(const step_report& report) = 0;
  virtual void event(const run_event& what) = 0;
};

/// 1 − busy / (stages · makespan), the makespan being last end minus first start over all actions of all timelines.
double measured_bubble(const std::vector<shard_timeline>& timelines);

}  // namespace troupe
