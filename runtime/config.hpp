#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/result.hpp"

namespace troupe {

/// A run's settings, section by section as in the TOML file; every value has a default, a unit and a line of help (see
/// `config_help`). Filled by `load_config`; a config that was returned is valid in itself.
struct config {
  struct {
    std::string kind = "gpt";  ///< which registered model; a user's binary adds its own
    std::int64_t layers = 4, hidden = 128, heads = 4, seq_len = 128, vocab = 256;
    bool tied = true;
  } model;
  struct {
    std::string path = "/usr/share/common-licenses";  ///< a text file, or a folder whose files are joined in name order
    std::string tokenizer = "bytes";
  } data;
  struct {
    std::int64_t pp = 2;              ///< stages of a pipeline
    std::int64_t tp = 1;              ///< tensor shards of each stage
    std::int64_t dp = 1;              ///< replicas of the pipeline
    bool sequence_parallel = true;    ///< with tp > 1: rows are cut too, outside the matrix products
    std::int64_t zero = 0;            ///< ZeRO stage: 1 splits the optimizer's state over replicas
    std::int64_t bucket_kib = 8'192;  ///< replicas exchange gradients in pieces of about this size
    std::string schedule = "1f1b";
    std::string device = "cpu";
    std::vector<std::int64_t> split;  ///< layers per stage, embedding and head counted; empty: balanced by cost
    std::int64_t threads_per_shard = 1;
    bool oversubscribe = false;         ///< more shards than cores are an error without it
    std::string workers = "processes";  ///< or threads
  } parallel;
  struct {
    std::int64_t steps = 100, global_batch = 16, micro_batch = 2;  ///< sequences
    double lr = 1e-3, weight_decay = 0.1;
    double clip = 1.0;  ///< of the global gradient norm; 0: never clipped
    double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
    std::int64_t warmup_steps = 0;  ///< lr rises linearly over them
    double min_lr_ratio = 1.0;      ///< cosine decay to this share of lr at the last step; 1: constant
    std::int64_t seed = 1;
    std::string dtype = "f32";
    std::string recompute = "none";  ///< of activations in the backward: none, selective (attention), full
  } train;
  struct {
    std::string route = "auto";  ///< auto (shared memory inside a machine), shm, tcp
    std::string device = "lo";   ///< the only network device that is listened on
    bool checksum = true;
    std::int64_t spin_us = 20;
    std::int64_t handshake_timeout_ms = 10'000;
    std::int64_t control_port = 0;  ///< 0: any free one, on loopback
  } transport;
  struct {
    std::int64_t trace_steps = 20;  ///< trace.json holds the last so many steps
    std::int64_t print_every = 10;  ///< plain progress lines, steps
  } observe;
  struct {
    std::string replicate = "buddy";  ///< buddy: a peer keeps a copy of each shard's state; off
    std::int64_t max_restarts = 10;   ///< deaths within the window that are borne
    std::int64_t window_s = 600;
    std::int64_t grace_ms = 2'000;                ///< between asking a worker to end and killing it
    std::int64_t heartbeat_ms = 500;              ///< ping interval; ten missed in a row are a death
    std::int64_t start_timeout_ms = 30'000;       ///< from the start of a worker to its first word
    std::int64_t collective_timeout_ms = 60'000;  ///< how long tensor shards wait for the slowest of them
  } recovery;
  struct {
    std::string preset = "cpu";                 ///< a known kind of machine; what follows says what differs, 0: nothing
    std::int64_t nodes = 0;                     ///< 0: as many as the mesh needs
    std::int64_t devices_per_node = 0;          ///< also the limit of parallel.tp
    double memory_gib = 0;                      ///< of a device
    double peak_tflops = 0;                     ///< of a device, in the number format planned for
    double achieved = 0;                        ///< share of the peak that large matrix products reach
    double memory_gb_per_s = 0;                 ///< of a device, as achieved; so are the links'
    double inside_gb_per_s = 0, inside_us = 0;  ///< between devices of a node, one way; latency
    double between_gb_per_s = 0, between_us = 0;  ///< between nodes, for each device
  } cluster;
  struct {
    std::string schedule = "as-run";  ///< or one that a run cannot take yet
    std::int64_t chunks = 0;          ///< 0: as many as the schedule is made for
    std::string dtype = "as-run";     ///< f32, or bf16 with the optimizer's state in f32
  } plan;
};

/// Where a value came from: "default", "run.toml:12", "--set", "TROUPE_TRAIN_STEPS".
struct config_origin {
  std::string key;    ///< "train.steps"
  std::string value;  ///< as TOML
  std::string origin;
};

struct loaded_config {
  config values;
  std::vector<config_origin> origins;  ///< every key, in file order of `config`
};

/// Reads `path` (empty: defaults only), then `TROUPE_SECTION_KEY` variables, then `overrides` ("train.steps=5"), each
/// stronger than the one before; checks every value and the relations between them (divisibility, ranges).
/// Errors: `invalid_argument` with one sentence: file:line or key, what is wrong, what would do; an unknown key names
/// the nearest known one.
result<loaded_config> load_config(const std::string& path, const std::vector<std::string>& overrides);

/// Parses TOML text that `to_toml` wrote; for workers, which get their config over the control plane.
result<config> parse_config(std::string_view toml);

/// All keys with their values, as TOML that `load_config` reads back to the same config.
std::string to_toml(const config& values);

/// For `--help-config`: each key with its default, unit and meaning.
std::string config_help();

}  // namespace troupe
