#include "runtime/config_schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <type_traits>

#include "actors/schedule/schedule.hpp"
#include "runtime/nearest_name.hpp"
#include "runtime/planning/cluster.hpp"

namespace troupe {
namespace {

config_limits between(double low, double high) { return {.low = low, .high = high, .open = false, .choices = {}}; }
config_limits inside(double low, double high) { return {.low = low, .high = high, .open = true, .choices = {}}; }
config_limits one_of(std::vector<std::string_view> choices) {
  return {.low = 0, .high = 0, .open = false, .choices = std::move(choices)};
}
config_limits any() { return {}; }

// Whole numbers stay so small that no product of a few of them leaves 64 bits.
constexpr double most_stages = 65'535, most_ms = 86'400'000, most_steps = 1e12, most_layers = 65'000, most_width = 1e6;

std::vector<std::string_view> plannable_schedule_names() {
  auto names = schedule_names();
  names.insert(names.begin(), "as-run");
  // A step of its own is what is planned: no evaluation, and no stream without steps.
  std::erase_if(names, [](auto name) { return name == "forward-only" || name.starts_with("pipedream"); });
  return names;
}

#define TROUPE_FIELD(place) [](config& c) -> config_field { return &c.place; }

std::vector<config_key> make_schema() {
  return {
      {"model.kind", TROUPE_FIELD(model.kind), any(), "", "which model; the troupe command knows gpt"},
      {"model.layers", TROUPE_FIELD(model.layers), between(1, most_layers), "blocks",
       "transformer blocks, without the embedding and the head"},
      {"model.hidden", TROUPE_FIELD(model.hidden), between(1, most_width), "floats",
       "width of an activation; a multiple of model.heads"},
      {"model.heads", TROUPE_FIELD(model.heads), between(1, most_width), "heads", "attention heads of a block"},
      {"model.seq_len", TROUPE_FIELD(model.seq_len), between(1, most_width), "tokens", "length of a sequence"},
      {"model.vocab", TROUPE_FIELD(model.vocab), between(2, 1e7), "tokens",
       "size of the vocabulary; at least 256 for tokenizer bytes"},
      {"model.tied", TROUPE_FIELD(model.tied), any(), "", "the head uses the embedding's weights"},

      {"data.path", TROUPE_FIELD(data.path), any(), "",
       "a text file, or a folder whose files are joined in name order"},
      {"data.tokenizer", TROUPE_FIELD(data.tokenizer), one_of({"bytes"}), "", "how text becomes tokens"},

      {"parallel.pp", TROUPE_FIELD(parallel.pp), between(1, most_stages), "stages",
       "pipeline stages, each on a device of its own"},
      {"parallel.tp", TROUPE_FIELD(parallel.tp), between(1, most_stages), "shards",
       "tensor shards that each stage is cut into; must divide model.heads"},
      {"parallel.dp", TROUPE_FIELD(parallel.dp), between(1, most_stages), "replicas",
       "copies of the whole pipeline; they share out the micro-batches of a step"},
      {"parallel.sequence_parallel", TROUPE_FIELD(parallel.sequence_parallel), any(), "",
       "with tp > 1: also cut the rows of activations outside the matrix products"},
      {"parallel.zero", TROUPE_FIELD(parallel.zero), between(0, 1), "",
       "ZeRO stage; 1: with dp > 1 each replica keeps its share of the optimizer's state only"},
      {"parallel.bucket_kib", TROUPE_FIELD(parallel.bucket_kib), between(1, 1 << 22), "KiB",
       "replicas exchange gradients in pieces of about this size"},
      {"parallel.schedule", TROUPE_FIELD(parallel.schedule), one_of(runnable_schedule_names()), "",
       "order of forwards and backwards on each stage"},
      {"parallel.device", TROUPE_FIELD(parallel.device), one_of({"cpu", "cuda"}), "", "where stages compute"},
      {"parallel.split", TROUPE_FIELD(parallel.split), between(1, most_layers), "layers",
       "layers of each stage, embedding and head counted as one each; [] balances by cost"},
      {"parallel.threads_per_shard", TROUPE_FIELD(parallel.threads_per_shard), between(1, 1024), "threads",
       "compute threads of a CPU shard"},
      {"parallel.oversubscribe", TROUPE_FIELD(parallel.oversubscribe), any(), "",
       "allow more compute threads than cores"},
      {"parallel.workers", TROUPE_FIELD(parallel.workers), one_of({"processes", "threads"}), "",
       "each shard in a process of its own, or all in threads of one"},

      {"train.steps", TROUPE_FIELD(train.steps), between(1, most_steps), "steps", "optimizer updates of the whole run"},
      {"train.global_batch", TROUPE_FIELD(train.global_batch), between(1, most_width), "sequences",
       "sequences of one step; a multiple of train.micro_batch"},
      {"train.micro_batch", TROUPE_FIELD(train.micro_batch), between(1, most_width), "sequences",
       "sequences that travel the pipeline together"},
      {"train.lr", TROUPE_FIELD(train.lr), between(0, 1e3), "", "learning rate of AdamW after the warm-up"},
      {"train.weight_decay", TROUPE_FIELD(train.weight_decay), between(0, 1e3), "",
       "decoupled weight decay, on matrices alone"},
      {"train.clip", TROUPE_FIELD(train.clip), between(0, 1e9), "", "largest global gradient norm; 0: not clipped"},
      {"train.beta1", TROUPE_FIELD(train.beta1), between(0, 0.999999), "", "decay of AdamW's first moment, a step"},
      {"train.beta2", TROUPE_FIELD(train.beta2), between(0, 0.999999), "", "decay of AdamW's second moment, a step"},
      {"train.epsilon", TROUPE_FIELD(train.epsilon), inside(0, 1), "", "added to the root of the second moment"},
      {"train.warmup_steps", TROUPE_FIELD(train.warmup_steps), between(0, most_steps), "steps",
       "the learning rate rises linearly over them"},
      {"train.min_lr_ratio", TROUPE_FIELD(train.min_lr_ratio), between(0, 1), "",
       "cosine decay to this share of train.lr at the last step; 1: constant"},
      {"train.seed", TROUPE_FIELD(train.seed), between(0, 9.0e18), "", "decides the initial weights"},
      {"train.dtype", TROUPE_FIELD(train.dtype), one_of({"f32"}), "", "number format of weights and activations"},
      {"train.recompute", TROUPE_FIELD(train.recompute), one_of({"none", "selective", "full"}), "",
       "activations computed again in the backward: none; attention's output; all of a layer's but its input"},

      {"transport.route", TROUPE_FIELD(transport.route), one_of({"auto", "shm", "tcp"}), "",
       "how tensors travel between processes; auto: shared memory inside a machine"},
      {"transport.device", TROUPE_FIELD(transport.device), any(), "",
       "the only network device that the data plane listens on"},
      {"transport.checksum", TROUPE_FIELD(transport.checksum), any(), "", "check every payload with xxh3"},
      {"transport.spin_us", TROUPE_FIELD(transport.spin_us), between(0, 1e6), "µs",
       "how long an idle transport polls before it sleeps"},
      {"transport.handshake_timeout_ms", TROUPE_FIELD(transport.handshake_timeout_ms), between(1, most_ms), "ms",
       "until a peer's first answer"},
      {"transport.control_port", TROUPE_FIELD(transport.control_port), between(0, 65'535), "",
       "port of the control plane on loopback; 0: any free one"},

      {"observe.trace_steps", TROUPE_FIELD(observe.trace_steps), between(0, 10'000), "steps",
       "trace.json holds the last so many; 0: no trace"},
      {"observe.print_every", TROUPE_FIELD(observe.print_every), between(1, most_steps), "steps",
       "between two plain progress lines, where there is no terminal"},

      {"recovery.replicate", TROUPE_FIELD(recovery.replicate), one_of({"buddy", "off"}), "",
       "buddy: a peer keeps a copy of each shard's state, and who is lost goes on from there; off: all begin again"},
      {"recovery.max_restarts", TROUPE_FIELD(recovery.max_restarts), between(0, 1e6), "deaths",
       "within the window that are borne; one more ends the run"},
      {"recovery.window_s", TROUPE_FIELD(recovery.window_s), between(1, 1e7), "s",
       "in which deaths are counted against max_restarts"},
      {"recovery.grace_ms", TROUPE_FIELD(recovery.grace_ms), between(0, most_ms), "ms",
       "between asking a worker to end and killing it"},
      {"recovery.heartbeat_ms", TROUPE_FIELD(recovery.heartbeat_ms), between(10, most_ms), "ms",
       "between two pings of a worker; ten missed in a row are a death"},
      {"recovery.start_timeout_ms", TROUPE_FIELD(recovery.start_timeout_ms), between(100, most_ms), "ms",
       "from the start of a worker to its first word"},
      {"recovery.collective_timeout_ms", TROUPE_FIELD(recovery.collective_timeout_ms), between(100, most_ms), "ms",
       "how long the tensor shards of a stage wait for the slowest of them"},

      {"cluster.preset", TROUPE_FIELD(cluster.preset), one_of(planning::cluster_names()), "",
       "the machines that troupe plan and simulate reckon with; the other keys say what differs, 0 nothing"},
      {"cluster.nodes", TROUPE_FIELD(cluster.nodes), between(0, most_stages), "nodes",
       "how many; 0: as many as the mesh needs"},
      {"cluster.devices_per_node", TROUPE_FIELD(cluster.devices_per_node), between(0, 1024), "devices",
       "of a node; tensor shards of a stage never leave one"},
      {"cluster.memory_gib", TROUPE_FIELD(cluster.memory_gib), between(0, 1e6), "GiB", "memory of a device"},
      {"cluster.peak_tflops", TROUPE_FIELD(cluster.peak_tflops), between(0, 1e6), "TFLOP/s",
       "a device's peak for matrix products, in the number format planned for"},
      {"cluster.achieved", TROUPE_FIELD(cluster.achieved), between(0, 1), "",
       "share of the peak that large matrix products reach"},
      {"cluster.memory_gb_per_s", TROUPE_FIELD(cluster.memory_gb_per_s), between(0, 1e6), "GB/s",
       "a device's memory, as achieved"},
      {"cluster.inside_gb_per_s", TROUPE_FIELD(cluster.inside_gb_per_s), between(0, 1e6), "GB/s",
       "between devices of a node, one way, as achieved"},
      {"cluster.inside_us", TROUPE_FIELD(cluster.inside_us), between(0, 1e9), "µs", "a message inside a node"},
      {"cluster.between_gb_per_s", TROUPE_FIELD(cluster.between_gb_per_s), between(0, 1e6), "GB/s",
       "between nodes, one way, for each device of a node at the same time"},
      {"cluster.between_us", TROUPE_FIELD(cluster.between_us), between(0, 1e9), "µs", "a message between nodes"},

      {"plan.schedule", TROUPE_FIELD(plan.schedule), one_of(plannable_schedule_names()), "",
       "schedule to plan and simulate, where it is not to be parallel.schedule"},
      {"plan.chunks", TROUPE_FIELD(plan.chunks), between(0, 1024), "chunks",
       "of a stage; 0: as many as the schedule is made for"},
      {"plan.dtype", TROUPE_FIELD(plan.dtype), one_of({"as-run", "f32", "bf16"}), "",
       "number format to plan and simulate, where it is not to be train.dtype; bf16 keeps sums and state in f32"},
  };
}

#undef TROUPE_FIELD

template <class T>
constexpr bool is_list = std::is_same_v<T, std::vector<std::int64_t>*>;

std::string range_text(const config_limits& limits) {
  return limits.open ? fmt::format(" between {} and {}, both excluded", limits.low, limits.high)
                     : fmt::format(" from {} to {}", limits.low, limits.high);
}

// NaN is in no range.
bool in_range(double value, const config_limits& limits) {
  return limits.open ? value > limits.low && value < limits.high : value >= limits.low && value <= limits.high;
}

bool allowed(const std::string& text, const config_limits& limits) {
  return limits.choices.empty() ? !text.empty() : std::ranges::find(limits.choices, text) != limits.choices.end();
}

// TOML tells a float from an integer by its point or exponent (or by being inf or nan).
std::string toml_float(double value) {
  auto text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

const std::vector<config_key>& config_schema() {
  static const auto schema = make_schema();
  return schema;
}

const config_key* find_config_key(std::string_view name) {
  const auto& schema = config_schema();
  const auto found = std::ranges::find(schema, name, &config_key::name);
  return found == schema.end() ? nullptr : &*found;
}

const config_key& nearest_config_key(std::string_view name) {
  const auto bare = name.substr(name.rfind('.') + 1);  // npos + 1 is 0: the whole name
  const auto distance = [&](const config_key& key) {
    return std::min(edit_distance(name, key.name), 1 + edit_distance(bare, key.bare_name()));
  };
  return *std::ranges::min_element(config_schema(), {}, distance);
}

std::string expectation(const config_key& key) {
  config defaults;
  const auto name_type = [&](auto* field) -> std::string {
    using pointer = decltype(field);
    if constexpr (std::is_same_v<pointer, bool*>) return "true or false";
    if constexpr (std::is_same_v<pointer, std::int64_t*>) return "a whole number" + range_text(key.limits);
    if constexpr (std::is_same_v<pointer, double*>) return "a number" + range_text(key.limits);
    if constexpr (is_list<pointer>) return "a list of whole numbers" + range_text(key.limits);
    if (key.limits.choices.empty()) return "a text that is not empty";
    if (key.limits.choices.size() == 1) return fmt::format("{} (the only choice)", key.limits.choices.front());
    return fmt::format("one of {}", fmt::join(key.limits.choices, ", "));
  };
  return std::visit(name_type, key.field(defaults));
}

std::string limits_broken(const config_key& key, const config& values) {
  auto copy = values;
  const auto fits = [&](auto* field) {
    using pointer = decltype(field);
    if constexpr (std::is_same_v<pointer, bool*>)
      return true;
    else if constexpr (std::is_same_v<pointer, std::string*>)
      return allowed(*field, key.limits);
    else if constexpr (is_list<pointer>)
      return std::ranges::all_of(*field, [&](auto n) { return in_range(static_cast<double>(n), key.limits); });
    else
      return in_range(static_cast<double>(*field), key.limits);
  };
  if (std::visit(fits, key.field(copy))) return "";
  return fmt::format("must be {}, not {}", expectation(key), toml_value(key, values));
}

std::string toml_value(const config_key& key, const config& values) {
  auto copy = values;
  const auto print = [](auto* field) -> std::string {
    using pointer = decltype(field);
    if constexpr (std::is_same_v<pointer, std::string*>)
      return toml_quoted(*field);
    else if constexpr (std::is_same_v<pointer, double*>)
      return toml_float(*field);
    else if constexpr (is_list<pointer>)
      return fmt::format("[{}]", fmt::join(*field, ", "));
    else
      return fmt::format("{}", *field);
  };
  return std::visit(print, key.field(copy));
}

std::string toml_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    else
      quoted += c;
  }
  return quoted + '"';
}

}  // namespace troupe
