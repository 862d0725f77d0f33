#include "runtime/planning/config_plan.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "actors/schedule/schedule.hpp"

namespace troupe::planning {

namespace {

constexpr std::array<std::string_view, 3> recomputing_names{"none", "selective", "full"};

recomputing recomputing_named(std::string_view name) {
  return name == "none" ? recomputing::none : name == "selective" ? recomputing::selective : recomputing::full;
}

// How many chunks the schedule is made for, or takes as asked.
result<std::uint32_t> chunks_of(const std::string& name, std::int64_t asked) {
  auto made = make_schedule(name, {1, 1, static_cast<std::uint32_t>(asked)});
  if (!made) return invalid("plan.chunks: " + made.error().where);
  return made->chunks;
}

constexpr std::uint64_t most_shards = 1'000'000;

status check_mesh(const training_plan& p) {
  const auto& m = p.extents;
  if (std::uint64_t{m.stages} * m.replicas > most_shards / m.shards)
    return invalid(fmt::format("{} are more than {} shards; choose a smaller mesh", mesh_text(m), most_shards));
  if (p.model.hidden % p.extents.shards != 0)
    return invalid(fmt::format("parallel.tp = {} does not divide model.hidden = {}", p.extents.shards, p.model.hidden));
  const auto tokens = p.micro_batch * p.model.seq_len;
  if (p.rows_are_cut() && tokens % p.extents.shards != 0)
    return invalid(
        fmt::format("parallel.tp = {} does not divide the {} tokens of a micro-batch; choose another tp, or "
                    "parallel.sequence_parallel = false",
                    p.extents.shards, tokens));
  return {};
}

}  // namespace

result<cluster> cluster_of_config(const config& c, const number_format& numbers) {
  TROUPE_TRY(auto on, find_cluster(c.cluster.preset));
  const auto set = [](double& value, double given, double unit) {
    if (given > 0) value = given * unit;
  };
  on.nodes = static_cast<std::uint32_t>(c.cluster.nodes);
  if (c.cluster.devices_per_node > 0) on.devices_per_node = static_cast<std::uint32_t>(c.cluster.devices_per_node);
  set(on.memory_bytes, c.cluster.memory_gib, 1024.0 * 1024 * 1024);
  set(numbers.half ? on.half_flops : on.f32_flops, c.cluster.peak_tflops, 1e12);
  set(on.achieved, c.cluster.achieved, 1);
  set(on.memory_bytes_per_s, c.cluster.memory_gb_per_s, 1e9);
  set(on.inside.bytes_per_s, c.cluster.inside_gb_per_s, 1e9);
  set(on.inside.latency_s, c.cluster.inside_us, 1e-6);
  set(on.between.bytes_per_s, c.cluster.between_gb_per_s, 1e9);
  set(on.between.latency_s, c.cluster.between_us, 1e-6);
  return on;
}

result<planned_run> plan_of_config(const config& c) {
  if (c.model.kind != "gpt")
    return invalid(fmt::format("model.kind: costs are known of gpt alone, not of '{}'", c.model.kind));
  planned_run run;
  auto& p = run.plan;
  p.model = {c.model.layers, c.model.hidden, c.model.heads, c.model.seq_len, c.model.vocab, c.model.tied};
  p.extents = {static_cast<std::uint32_t>(c.parallel.pp), static_cast<std::uint32_t>(c.parallel.dp),
               static_cast<std::uint32_t>(c.parallel.tp)};
  p.schedule = c.plan.schedule == "as-run" ? c.parallel.schedule : c.plan.schedule;
  TROUPE_TRY(p.chunks, chunks_of(p.schedule, c.plan.chunks));
  p.micro_batch = c.train.micro_batch;
  p.global_batch = c.train.global_batch;
  p.recompute = recomputing_named(c.train.recompute);
  p.sequence_parallel = c.parallel.sequence_parallel;
  p.split_optimizer = c.parallel.zero == 1;
  p.numbers = (c.plan.dtype == "as-run" ? c.train.dtype : c.plan.dtype) == "bf16" ? bf16_numbers : f32_numbers;
  if (p.chunks == 1) p.split.assign(c.parallel.split.begin(), c.parallel.split.end());
  TROUPE_CHECK(check_mesh(p));
  TROUPE_TRY(run.on, cluster_of_config(c, p.numbers));
  return run;
}

std::string bytes_text(double bytes) {
  static constexpr std::array<std::string_view, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} B", bytes)
                   : fmt::format("{:.{}f} {}", bytes, bytes < 100 ? 2 : 1, units[unit]);
}

std::string seconds_text(double seconds) {
  if (std::abs(seconds) >= 1) return fmt::format("{:.2f} s", seconds);
  if (std::abs(seconds) >= 1e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.1f} µs", seconds * 1e6);
}

std::string mesh_text(const mesh& m) { return fmt::format("pp {} · dp {} · tp {}", m.stages, m.replicas, m.shards); }

std::string nodes_text(std::uint32_t nodes) { return fmt::format("{} node{}", nodes, nodes == 1 ? "" : "s"); }

std::string_view to_string(recomputing r) { return recomputing_names[static_cast<std::size_t>(r)]; }

}  // namespace troupe::planning
