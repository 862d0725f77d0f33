#include "runtime/planning/cluster.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace troupe::planning {

namespace {

constexpr double tera = 1e12, giga = 1e9, gib = 1024.0 * 1024 * 1024, us = 1e-6;

// The shares of peaks that a program reaches on an A100, and the rows that fill it: fitted to the ten rows of
// arXiv:2104.04473, table 1, and to the best micro-batch of its figure 16
// (tests/unit/runtime/planning_published_test.cpp prints them). On the H100 and H200, whose figures nothing published
// allows to fit so, shares are assumed to be the same, but for matrix products, which their power limit slows; and they
// take twice the rows to fill.
constexpr double matrix_share = 0.74, memory_share = 0.8, link_share = 0.6, network_share = 0.8, full_rows = 100;
constexpr double hopper_matrix_share = 0.65;
constexpr link_speed nvlink(double gb_per_s) { return {gb_per_s * giga * link_share, 1.5 * us}; }
constexpr link_speed infiniband(double gb_per_s) { return {gb_per_s * giga * network_share, 5 * us}; }

// Assumed of a shard actor: one mailbox message, and its part of the channel's work.
constexpr double troupe_message_s = 20 * us;

cluster a100() {
  // Peaks, memory and NVLink 3 (600 GB/s both ways together): NVIDIA A100 Tensor Core GPU datasheet, 2021, SXM 80 GB.
  // Eight HDR InfiniBand adapters of 200 Gb/s a node: NVIDIA DGX A100 datasheet.
  return {.name = "a100-80g",
          .f32_flops = 19.5 * tera,
          .half_flops = 312 * tera,
          .achieved = matrix_share,
          .half_speed_rows = full_rows,
          .memory_bytes = 80 * giga,
          .memory_bytes_per_s = 2039 * giga * memory_share,
          .inside = nvlink(300),
          .between = infiniband(25),
          .devices_per_node = 8,
          .nodes = 1,
          .message_s = troupe_message_s};
}

cluster h100() {
  // NVIDIA H100 Tensor Core GPU datasheet, SXM: 989.5 TFLOP/s dense, 67 in f32, 3.35 TB/s, NVLink 4 of 900 GB/s both
  // ways together. Eight adapters of 400 Gb/s a node: NVIDIA DGX H100 datasheet.
  auto c = a100();
  c.name = "h100";
  c.f32_flops = 67 * tera;
  c.half_flops = 989.5 * tera;
  c.achieved = hopper_matrix_share;
  c.half_speed_rows = 2 * full_rows;
  c.memory_bytes_per_s = 3350 * giga * memory_share;
  c.inside = nvlink(450);
  c.between = infiniband(50);
  return c;
}

cluster h200() {
  // NVIDIA H200 Tensor Core GPU datasheet, SXM: an H100 with 141 GB at 4.8 TB/s.
  auto c = h100();
  c.name = "h200";
  c.memory_bytes = 141 * giga;
  c.memory_bytes_per_s = 4800 * giga * memory_share;
  return c;
}

cluster cpu() {
  // One core of a Sapphire Rapids Xeon. Peak, share and memory speed are such that the passes of
  // examples/gpt/default.toml take what they took on one that had nothing else to do (5.0 ms forward and 10.4 ms
  // backward of a micro-batch); the links are round numbers of the order that `./dev bench` prints. For a machine of
  // one's own, set them in [cluster].
  return {.name = "cpu",
          .f32_flops = 200 * giga,
          .half_flops = 200 * giga,
          .achieved = 0.6,
          .half_speed_rows = 0,
          .memory_bytes = 4 * gib,
          .memory_bytes_per_s = 8 * giga,
          .inside = {4 * giga, 10 * us},
          .between = {1.1 * giga, 50 * us},
          .devices_per_node = 8,
          .nodes = 1,
          .message_s = troupe_message_s};
}

struct preset {
  std::string_view name;
  cluster (*make)();
};
constexpr std::array presets{preset{"cpu", cpu}, preset{"a100-80g", a100}, preset{"h100", h100}, preset{"h200", h200}};

}  // namespace

result<cluster> find_cluster(std::string_view name) {
  const auto found = std::ranges::find(presets, name, &preset::name);
  if (found == presets.end())
    return invalid(fmt::format("no cluster is named '{}'; there are: {}", name, fmt::join(cluster_names(), ", ")));
  return found->make();
}

std::vector<std::string_view> cluster_names() {
  std::vector<std::string_view> names;
  for (const auto& p : presets) names.push_back(p.name);
  return names;
}

cluster megatron_2021_cluster() {
  auto c = a100();
  c.message_s = 400 * us;  // its sends and receives occupy the device and end in a synchronisation with the host
  c.overlaps_gradients = false;
  return c;
}

double all_reduce_s(double bytes, std::uint32_t members, const link_speed& link) {
  if (members < 2) return 0;
  const auto n = static_cast<double>(members);
  return 2 * (n - 1) / n * bytes / link.bytes_per_s + 2 * (n - 1) * link.latency_s;
}

}  // namespace troupe::planning
