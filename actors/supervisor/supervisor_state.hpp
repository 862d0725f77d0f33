#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/cluster.hpp"
#include "actors/shard/progress_cell.hpp"

namespace troupe {

/// What one shard told about a step, as numbers again.
struct shard_step {
  std::uint64_t step = 0;
  std::vector<float> losses;
  std::vector<stage::parameter_norm> norms;
  shard_timeline timeline;
};

/// A step that every shard has finished: the update to announce and the report to write.
struct committed_step {
  update_rule update;
  step_report report;
};

/// The supervisor's memory and judgement. Knows no CAF: a test drives it by hand.
class supervisor_state {
public:
  supervisor_state() = default;
  explicit supervisor_state(const cluster_settings* settings)
      : settings_(settings), finished_(settings->extents.size()) {}

  std::uint64_t next_step() const noexcept { return next_step_; }
  /// Steps below this may run.
  std::uint64_t granted() const noexcept;
  bool all_committed() const noexcept { return next_step_ == settings_->steps; }

  void begin(std::int64_t now_ns) { last_commit_ns_ = now_ns; }
  /// Takes one shard's part; a part of another step, or a second one, is ignored. When it was the last one missing, the
  /// step is committed: losses are added in micro-batch order, replica by replica, norms in parameter order, then in
  /// that of shards, whatever order they came in. Tensor shards all compute the loss; the first one's counts.
  std::optional<committed_step> take(shard_id shard, shard_step part, std::int64_t now_ns);
  /// What the shard of this rank told of the open step no longer counts: it was lost, and its next incarnation will
  /// tell it again.
  void forget(std::uint32_t rank) { finished_[rank].reset(); }
  /// Step `step` is the open one again.
  void rewind(std::uint64_t step) { next_step_ = step; }

private:
  committed_step commit(std::int64_t now_ns);

  const cluster_settings* settings_ = nullptr;
  std::vector<std::optional<shard_step>> finished_;  // [rank]
  std::uint64_t next_step_ = 0;
  std::int64_t last_commit_ns_ = 0;
};

/// The culprit sentence: who, where, why, and what the others did.
/// "shard r0/s2/t0 on localhost (pid 4711): killed by signal 9 at step 41, micro-batch 3, backward; the others waited".
std::string culprit_sentence(shard_id shard, const std::string& node, int pid, const std::string& cause,
                             const progress_cell& cell);
/// "killed by signal 9" or "ended with exit code 1".
std::string cause_of(const process_end& end);

}  // namespace troupe
