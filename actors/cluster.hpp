#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/mesh.hpp"
#include "actors/run_listener.hpp"
#include "actors/shard/progress_cell.hpp"
#include "actors/shard/shard_executor.hpp"
#include "actors/stage/model.hpp"
#include "actors/stage/partition.hpp"
#include "transport/tensor_port.hpp"

// The actor system as the rest of Troupe sees it: no CAF header needed. A head holds the supervisor and its node agent;
// a worker process hosts shard actors; with threads, the head's own process does.

namespace troupe {

/// Which shard is to be built, and the text of the run's config.
struct shard_assignment {
  shard_id shard;
  std::uint32_t epoch = 1, incarnation = 1;
  std::uint64_t first_step = 0;  ///< the open one, with which it begins
  std::string config;
  stage_split split;
};

/// What one shard is made of. Made on the shard's own thread, where its device handles are born.
struct shard_parts {
  std::unique_ptr<communicator> group;  ///< the stage's tensor shards, where it has several
  std::unique_ptr<backend> ops;
  std::unique_ptr<stage> model;
  std::unique_ptr<stage> copy;  ///< of the shard whose state this one keeps, where it isn't its own replica
  bool keeps_copies = false;    ///< what a lost peer needs to begin again is kept
  std::vector<action> plan;
  std::uint32_t micro_batches = 1;  ///< of one replica
  mesh extents;
  bool split_optimizer = false;  ///< ZeRO-1
  std::uint64_t steps = 1;
  std::unique_ptr<data_source> data;  ///< needed on the first and the last stage
  std::function<result<std::unique_ptr<tensor_port>>(shard_id, port_listener&)> make_port;
};
using shard_factory = std::function<result<shard_parts>(const shard_assignment&)>;

/// How a worker process ended.
struct process_end {
  int signal = 0;  ///< that ended it, or 0
  int code = 0;    ///< its exit code where no signal did
};

/// Starts and watches worker processes; the operating system's side of a node agent.
class process_launcher {
public:
  virtual ~process_launcher() = default;
  /// Starts worker `index`; returns its pid. `ended` runs once on another thread when it is gone.
  virtual result<int> start(std::uint32_t index, std::function<void(process_end)> ended) = 0;
  /// Sends `signal` to worker `index` if it still runs.
  virtual void signal(std::uint32_t index, int signal) = 0;
};

struct cluster_settings {
  std::string config;                 ///< resolved TOML, for the workers
  std::string run_key;                ///< hexadecimal; who joins must know it
  std::string address = "127.0.0.1";  ///< the control plane listens here, and nowhere else
  std::uint16_t port = 0;             ///< 0: any free one
  bool processes = true;              ///< one worker process a shard; false: all shards in this process
  std::string node = "localhost";     ///< for messages
  mesh extents;
  stage_split split;
  schedule plan;  ///< of one replica
  std::uint64_t steps = 1;
  std::int64_t target_rows = 1;  ///< of a step, over all micro-batches of all replicas
  float clip = 1;                ///< global gradient norm; 0: never
  std::function<float(std::uint64_t step)> learning_rate;
  std::uint32_t grant_ahead = 4;  ///< steps that may run beyond the last commit
  std::chrono::milliseconds heartbeat{500}, start_timeout{30'000}, grace{2'000};
  std::uint32_t max_restarts = 3;  ///< deaths within `restart_window` that are borne
  std::chrono::milliseconds restart_window{600'000};
};

struct run_outcome {
  int exit_code = 0;  ///< of the command: 0, 2, 3, 130, 143
  std::string text;   ///< one sentence for a person
  /// What a shard held of its micro-batches between forward and backward; one entry a shard, where the run ended by
  /// itself.
  struct activation_memory {
    std::uint64_t micro_batches = 0;  ///< at most
    std::uint64_t bytes = 0;          ///< then, measured
    std::uint64_t bytes_each = 0;     ///< of one micro-batch, as its layers predict
  };
  std::vector<activation_memory> activations;
};

/// The head's actors.
class cluster_head {
public:
  /// Starts the supervisor and opens its port. `cells` has one progress cell a shard. With processes, `launcher` starts
  /// the workers; with threads, `factory` makes the shards here. All references must outlive the head.
  /// Errors: `invalid_argument` (the port is in use: says which key to change; extents, split, schedule and cells that
  /// do not fit each other).
  static result<std::unique_ptr<cluster_head>> start(cluster_settings settings, run_listener& listener,
                                                     std::span<progress_cell> cells, process_launcher* launcher,
                                                     shard_factory factory);
  virtual ~cluster_head() = default;
  virtual std::uint16_t port() const = 0;
  /// Starts the workers. Call once.
  virtual void begin() = 0;
  /// Ends the run early; any thread, not from a signal handler.
  virtual void interrupt(int signal) = 0;
  /// Blocks until the run has ended and everything it started is gone.
  virtual run_outcome wait() = 0;
};

struct worker_settings {
  std::string head_address;
  std::uint16_t head_port = 0;
  std::string run_key;
  std::uint32_t index = 0;
  std::span<progress_cell> cells;
  shard_factory factory;
};

/// A worker process's whole life: joins the head, hosts what it is told to, ends when it is told to or the head is
/// gone. Returns the process's exit code.
int run_cluster_worker(worker_settings settings);

}  // namespace troupe
