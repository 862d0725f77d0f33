#pragma once

#include <memory>
#include <vector>

#include "actors/cluster.hpp"
#include "kernels/collectives/host_group.hpp"
#include "runtime/config.hpp"
#include "transport/event_loop.hpp"
#include "transport/in_process.hpp"
#include "transport/port_options.hpp"

namespace troupe {

/// The config's extents.
mesh mesh_of(const config& c);
/// The config's values that shape a model, as tensor shard `rank` sees it.
model_settings settings_of(const config& c, std::uint32_t rank = 0);

/// A model as a config describes it, before it is cut into stages.
struct model_plan {
  model_definition definition;
  layer_list layers;
  std::vector<tensor_spec> specs;   ///< element i is layer i's input
  std::int64_t target_rows = 0;     ///< of one micro-batch
  std::uint32_t micro_batches = 1;  ///< of one replica
  stage_split split;
  schedule plan;
};

/// Builds the layers as tensor shard `rank` of each stage has them, opens the data, cuts the stages and makes the
/// schedule. Errors: `invalid_argument`, one sentence.
result<model_plan> plan_model(const config& c, const std::vector<model_definition>& models, std::uint32_t rank = 0);

/// Where ports come from: the run's own process, or UCX. Both must outlive the shards.
struct port_source {
  in_process_exchange* exchange = nullptr;  ///< with threads
  event_loop* loop = nullptr;               ///< with processes
  run_key key{};
  std::vector<thread_group>* groups = nullptr;  ///< with threads: of each stage of each replica, where tp > 1
  int group_descriptor = -1;                    ///< with processes: this worker's host group segment, where tp > 1
};

/// Makes shards from their assignment. Called on the shards' threads, several at once.
shard_factory make_shard_factory(std::vector<model_definition> models, port_source ports);

/// What the head's actors need to know of such a run.
cluster_settings cluster_of(const config& c, const model_plan& plan, const run_key& key);

/// The learning rate of step `step`: linear warm-up, then constant or cosine decay.
float learning_rate_at(const config& c, std::uint64_t step);

/// 128 random bits, and their text.
run_key make_run_key();
std::string to_hex(const run_key& key);
result<run_key> run_key_from_hex(std::string_view hex);

}  // namespace troupe
