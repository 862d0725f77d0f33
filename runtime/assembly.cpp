#include "runtime/assembly.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "runtime/builtin_models.hpp"
#include "transport/ucx_port.hpp"

namespace troupe {

namespace {

result<device> device_of(const config& c, std::uint32_t index) {
  if (c.parallel.device == "cpu") return device{device_kind::cpu, 0};
  if (c.parallel.device == "cuda") return device{device_kind::cuda, static_cast<int>(index)};
  return invalid(fmt::format("parallel.device: '{}' is no device; use cpu or cuda", c.parallel.device));
}

port_options options_of(const config& c, const run_key& key) {
  port_options o;
  o.key = key;
  o.route = c.transport.route == "tcp" ? port_route::tcp : port_route::shared_memory;
  o.tcp_device = c.transport.device;
  o.handshake_timeout = std::chrono::milliseconds(c.transport.handshake_timeout_ms);
  o.spin = std::chrono::microseconds(c.transport.spin_us);
  o.payload_checksum = c.transport.checksum;
  return o;
}

result<stage_split> split_of(const config& c, const layer_list& layers, const std::vector<tensor_spec>& specs) {
  if (c.parallel.split.empty()) return balance(forward_costs(layers, specs), static_cast<std::size_t>(c.parallel.pp));
  stage_split split(c.parallel.split.begin(), c.parallel.split.end());
  const auto sum = std::accumulate(split.begin(), split.end(), std::size_t{0});
  if (sum != layers.size() || split.size() != static_cast<std::size_t>(c.parallel.pp))
    return invalid(
        fmt::format("parallel.split: {} entries that add up to {}, but the run has parallel.pp = {} stages and {} "
                    "layers (embedding and head counted)",
                    split.size(), sum, c.parallel.pp, layers.size()));
  return split;
}

result<std::unique_ptr<communicator>> join_group(const config& c, const port_source& ports, const shard_assignment& a) {
  const auto extents = mesh_of(c);
  if (extents.shards == 1) return std::unique_ptr<communicator>();
  const host_group_settings s{a.shard.shard, extents.shards, a.epoch,
                              std::chrono::milliseconds(c.recovery.collective_timeout_ms)};
  if (ports.groups != nullptr) return (*ports.groups)[extents.group_of(a.shard)].join(s);
  return join_host_group(ports.group_descriptor, s);
}

result<std::unique_ptr<backend>> make_ops(device where, const communicator* group) {
  if (group == nullptr) return make_backend(where);
  if (where.kind == device_kind::cpu) return make_cpu_backend(group->memory());
  return invalid("parallel.tp > 1 needs parallel.device = \"cpu\" in this build");
}

result<shard_parts> make_shard(const std::vector<model_definition>& models, const port_source& ports,
                               const shard_assignment& a) {
  TROUPE_TRY(const auto c, parse_config(a.config));
  TROUPE_TRY(auto plan, plan_model(c, models, a.shard.shard));
  const auto extents = mesh_of(c);
  TROUPE_TRY(const auto where, device_of(c, extents.rank_of(a.shard)));

  shard_parts parts;
  TROUPE_TRY(parts.group, join_group(c, ports, a));
  TROUPE_TRY(parts.ops, make_ops(where, parts.group.get()));
  TROUPE_TRY(auto table, parameter_table::make(plan.layers, a.split));
  const auto rows = static_cast<double>(plan.target_rows) * plan.micro_batches * extents.replicas;
  stage_settings s;
  s.stage = a.shard.stage;
  s.micro_batches = plan.micro_batches;
  s.loss_scale = static_cast<float>(1.0 / rows);
  s.seed = static_cast<std::uint64_t>(c.train.seed);
  s.beta1 = static_cast<float>(c.train.beta1);
  s.beta2 = static_cast<float>(c.train.beta2);
  s.epsilon = static_cast<float>(c.train.epsilon);
  s.weight_decay = static_cast<float>(c.train.weight_decay);
  s.group = parts.group.get();
  s.replica = a.shard.replica;
  s.replicas = extents.replicas;
  s.split_optimizer = c.parallel.zero == 1;
  s.recompute = c.train.recompute == "full";
  s.bucket_elements = c.parallel.bucket_kib * 1024 / static_cast<std::int64_t>(sizeof(float));
  const auto ward = c.recovery.replicate == "buddy" ? extents.ward_of(a.shard) : std::nullopt;
  parts.keeps_copies = ward.has_value();
  parts.split_optimizer = s.split_optimizer && extents.replicas > 1;
  if (ward && (extents.replicas == 1 || parts.split_optimizer)) {
    TROUPE_TRY(auto again, plan_model(c, models, a.shard.shard));
    auto of_ward = s;
    of_ward.stage = ward->stage;
    of_ward.replica = ward->replica;
    TROUPE_TRY(auto copy,
               stage::make(std::move(again.layers), a.split, table, again.specs.front(), *parts.ops, of_ward));
    parts.copy = std::make_unique<stage>(std::move(copy));
  }
  TROUPE_TRY(auto built, stage::make(std::move(plan.layers), a.split, table, plan.specs.front(), *parts.ops, s));
  parts.model = std::make_unique<stage>(std::move(built));
  parts.plan = plan.plan.actions[a.shard.stage];
  parts.micro_batches = plan.micro_batches;
  parts.extents = extents;
  parts.steps = static_cast<std::uint64_t>(c.train.steps);
  if (parts.model->first() || parts.model->last()) {
    TROUPE_TRY(parts.data, plan.definition.data(settings_of(c)));
  }
  parts.make_port = [ports, options = options_of(c, ports.key)](
                        shard_id self, port_listener& listener) -> result<std::unique_ptr<tensor_port>> {
    if (ports.exchange != nullptr) return ports.exchange->make_port(self, listener);
    return make_ucx_port(*ports.loop, options, self, listener);
  };
  return parts;
}

}  // namespace

mesh mesh_of(const config& c) {
  const auto& p = c.parallel;
  return {static_cast<std::uint32_t>(p.pp), static_cast<std::uint32_t>(p.dp), static_cast<std::uint32_t>(p.tp)};
}

model_settings settings_of(const config& c, std::uint32_t rank) {
  const auto tp = static_cast<std::uint32_t>(c.parallel.tp);
  return {c.model.layers,
          c.model.hidden,
          c.model.heads,
          c.model.seq_len,
          c.model.vocab,
          c.model.tied,
          c.data.path,
          c.train.micro_batch,
          c.train.global_batch,
          c.train.steps,
          static_cast<std::uint64_t>(c.train.seed),
          {tp, rank, c.parallel.sequence_parallel && tp > 1},
          c.train.recompute == "selective"};
}

result<model_plan> plan_model(const config& c, const std::vector<model_definition>& models, std::uint32_t rank) {
  model_plan plan;
  const auto settings = settings_of(c, rank);
  TROUPE_TRY(plan.definition, find_model(models, c.model.kind));
  if (c.parallel.tp > 1 && !plan.definition.can_be_cut)
    return invalid(
        fmt::format("parallel.tp = {}: the layers of model.kind = '{}' cannot be cut into tensor shards; set "
                    "parallel.tp = 1",
                    c.parallel.tp, c.model.kind));
  TROUPE_TRY(plan.layers, plan.definition.layers(settings));
  TROUPE_TRY(const auto data, plan.definition.data(settings));
  TROUPE_TRY(plan.specs, infer_specs(plan.layers, data->input()));
  TROUPE_TRY(plan.split, split_of(c, plan.layers, plan.specs));
  plan.target_rows = data->target_rows();
  plan.micro_batches = static_cast<std::uint32_t>(c.train.global_batch / c.train.micro_batch / c.parallel.dp);
  TROUPE_TRY(plan.plan,
             make_schedule(c.parallel.schedule, {static_cast<std::uint32_t>(c.parallel.pp), plan.micro_batches}));
  return plan;
}

shard_factory make_shard_factory(std::vector<model_definition> models, port_source ports) {
  return [models = std::move(models), ports](const shard_assignment& a) { return make_shard(models, ports, a); };
}

cluster_settings cluster_of(const config& c, const model_plan& plan, const run_key& key) {
  cluster_settings s;
  s.config = to_toml(c);
  s.run_key = to_hex(key);
  s.port = static_cast<std::uint16_t>(c.transport.control_port);
  s.processes = c.parallel.workers == "processes";
  s.extents = mesh_of(c);
  s.split = plan.split;
  s.plan = plan.plan;
  s.steps = static_cast<std::uint64_t>(c.train.steps);
  s.target_rows = plan.target_rows * plan.micro_batches * c.parallel.dp;
  s.clip = static_cast<float>(c.train.clip);
  s.learning_rate = [c](std::uint64_t step) { return learning_rate_at(c, step); };
  s.heartbeat = std::chrono::milliseconds(c.recovery.heartbeat_ms);
  s.max_restarts = static_cast<std::uint32_t>(c.recovery.max_restarts);
  s.restart_window = std::chrono::seconds(c.recovery.window_s);
  s.start_timeout = std::chrono::milliseconds(c.recovery.start_timeout_ms);
  s.grace = std::chrono::milliseconds(c.recovery.grace_ms);
  return s;
}

float learning_rate_at(const config& c, std::uint64_t step) {
  const auto& t = c.train;
  const auto warmup = static_cast<std::uint64_t>(t.warmup_steps);
  if (step < warmup) return static_cast<float>(t.lr * static_cast<double>(step + 1) / static_cast<double>(warmup));
  const auto span = static_cast<double>(std::max<std::uint64_t>(static_cast<std::uint64_t>(t.steps) - warmup, 2) - 1);
  const double done = std::min(1.0, static_cast<double>(step - warmup) / span);
  const double share = t.min_lr_ratio + (1 - t.min_lr_ratio) * 0.5 * (1 + std::cos(std::numbers::pi * done));
  return static_cast<float>(t.lr * share);
}

run_key make_run_key() {
  run_key key;
  while (::getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) {
  }
  return key;
}

std::string to_hex(const run_key& key) {
  std::string hex;
  for (auto b : key) hex += fmt::format("{:02x}", static_cast<unsigned>(b));
  return hex;
}

result<run_key> run_key_from_hex(std::string_view hex) {
  run_key key;
  if (hex.size() != 2 * key.size()) return invalid("TROUPE_RUN_KEY is not 32 hexadecimal digits");
  for (std::size_t i = 0; i < key.size(); ++i) {
    unsigned byte = 0;
    for (char digit : hex.substr(2 * i, 2)) {
      const auto value = std::string_view("0123456789abcdef").find(digit);
      if (value == std::string_view::npos) return invalid("TROUPE_RUN_KEY is not 32 hexadecimal digits");
      byte = byte * 16 + static_cast<unsigned>(value);
    }
    key[i] = static_cast<std::byte>(byte);
  }
  return key;
}

}  // namespace troupe
