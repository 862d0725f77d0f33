#include "runtime/planning/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace troupe::planning {

namespace {

std::uint32_t ceil_div(std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; }

/// Gives each node's groups their devices, in the order in which `node_of(replica, stage)` names the node.
template <class NodeOf>
std::vector<device_place> arrange(mesh extents, std::uint32_t nodes, NodeOf node_of) {
  std::vector<std::uint32_t> used(nodes, 0);
  std::vector<device_place> groups;
  for (std::uint32_t r = 0; r < extents.replicas; ++r)
    for (std::uint32_t s = 0; s < extents.stages; ++s) {
      const auto node = node_of(r, s);
      groups.push_back({node, used[node] * extents.shards});
      ++used[node];
    }
  return groups;
}

std::vector<placement> arrangements(mesh m, node_grid grid) {
  const auto room = grid.devices / m.shards;  // groups a node
  std::vector<placement> all;
  const auto add = [&](auto node_of) { all.emplace_back(m, grid, arrange(m, grid.nodes, node_of)); };
  add([&](std::uint32_t r, std::uint32_t s) { return (r * m.stages + s) / room; });
  add([&](std::uint32_t r, std::uint32_t s) { return (s * m.replicas + r) / room; });
  for (std::uint32_t a = 1; a <= std::min(room, m.stages); ++a) {
    const auto b = std::min(room / a, m.replicas), across = ceil_div(m.stages, a);
    if (std::uint64_t{across} * ceil_div(m.replicas, b) > grid.nodes) continue;
    add([=](std::uint32_t r, std::uint32_t s) { return r / b * across + s / a; });
  }
  return all;
}

}  // namespace

placement::placement(mesh extents, node_grid grid, std::vector<device_place> groups)
    : extents_(extents), grid_(grid), groups_(std::move(groups)) {
  const auto room = grid.devices / extents.shards;
  group_slot_.assign(std::size_t{grid.nodes} * room, -1);
  for (std::size_t g = 0; g < groups_.size(); ++g)
    group_slot_[groups_[g].node * room + groups_[g].device / extents.shards] = static_cast<std::int64_t>(g);
}

device_place placement::place_of(shard_id shard) const {
  auto place = groups_[extents_.group_of(shard)];
  place.device += shard.shard;
  return place;
}

std::optional<shard_id> placement::shard_on(device_place place) const {
  const auto room = grid_.devices / extents_.shards, slot = place.device / extents_.shards;
  if (place.node >= grid_.nodes || slot >= room) return std::nullopt;
  const auto group = group_slot_[place.node * room + slot];
  if (group < 0) return std::nullopt;
  return extents_.shard_at(static_cast<std::uint32_t>(group) * extents_.shards + place.device % extents_.shards);
}

std::uint32_t placement::nodes_used() const {
  std::set<std::uint32_t> nodes;
  for (const auto& g : groups_) nodes.insert(g.node);
  return static_cast<std::uint32_t>(nodes.size());
}

std::uint32_t placement::replicas_together(std::uint32_t stage) const {
  std::map<std::uint32_t, std::uint32_t> on_node;
  for (std::uint32_t r = 0; r < extents_.replicas; ++r) ++on_node[node_of(r, stage)];
  const auto fewest = std::ranges::min_element(on_node, {}, [](const auto& node) { return node.second; });
  return fewest->second;
}

double placement::bytes_between_nodes(const mesh_traffic& traffic) const {
  double bytes = 0;
  for (std::uint32_t r = 0; r < extents_.replicas; ++r)
    for (std::uint32_t s = 0; s < extents_.stages; ++s)
      if (node_of(r, s) != node_of(r, (s + 1) % extents_.stages)) bytes += traffic.neighbours[s];
  // A ring over the replicas enters each node that it touches once.
  for (std::uint32_t s = 0; s < extents_.stages; ++s) {
    std::set<std::uint32_t> nodes;
    for (std::uint32_t r = 0; r < extents_.replicas; ++r) nodes.insert(node_of(r, s));
    const double n = extents_.replicas, crossings = nodes.size() > 1 ? static_cast<double>(nodes.size()) : 0;
    bytes += crossings * 2 * (n - 1) / n * traffic.gradients[s];
  }
  return bytes;
}

std::uint32_t nodes_needed(mesh extents, std::uint32_t devices_per_node) {
  if (extents.shards > devices_per_node) return 0;
  return ceil_div(extents.groups(), devices_per_node / extents.shards);
}

result<placement> place(mesh extents, node_grid grid, const mesh_traffic& traffic) {
  const auto needed = nodes_needed(extents, grid.devices);
  if (needed == 0)
    return invalid(
        fmt::format("the {} tensor shards of a stage must share a node, and a node has {} devices; choose "
                    "parallel.tp up to {}, or nodes with more devices",
                    extents.shards, grid.devices, grid.devices));
  if (needed > grid.nodes)
    return invalid(
        fmt::format("{} stages · {} replicas · {} tensor shards need {} nodes of {} devices, and there are "
                    "{}: {} missing; set cluster.nodes = {}, or choose a smaller mesh",
                    extents.stages, extents.replicas, extents.shards, needed, grid.devices, grid.nodes,
                    needed - grid.nodes, needed));
  const auto all = arrangements(extents, grid);
  return *std::ranges::min_element(all, {}, [&](const placement& p) { return p.bytes_between_nodes(traffic); });
}

}  // namespace troupe::planning
