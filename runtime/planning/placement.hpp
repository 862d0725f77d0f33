#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/mesh.hpp"
#include "kernels/core/result.hpp"

namespace troupe::planning {

/// A device among `nodes` alike.
struct device_place {
  std::uint32_t node = 0, device = 0;
  friend auto operator<=>(const device_place&, const device_place&) = default;
};

struct node_grid {
  std::uint32_t nodes = 1, devices = 1;  ///< devices of one node
};

/// Bytes of one step between shards, as far as they may leave a node.
struct mesh_traffic {
  /// [stage i]: both ways between stages i and i+1 of a replica, all their tensor shards; the last one: to stage 0.
  std::vector<double> neighbours;
  std::vector<double> gradients;  ///< [stage]: what each replica's stage contributes to the sum, all its tensor shards
};

/// Where each shard lives. A worker is a process with one device; worker w hosts the shard of rank w.
class placement {
public:
  placement(mesh extents, node_grid grid, std::vector<device_place> groups);

  mesh extents() const noexcept { return extents_; }
  node_grid grid() const noexcept { return grid_; }
  device_place place_of(shard_id shard) const;
  device_place place_of_worker(std::uint32_t worker) const { return place_of(extents_.shard_at(worker)); }
  /// Nothing where the device is idle, or there is none such.
  std::optional<shard_id> shard_on(device_place place) const;
  /// Of tensor shard 0; the others of the stage have the devices after it.
  std::uint32_t node_of(std::uint32_t replica, std::uint32_t stage) const {
    return groups_[replica * extents_.stages + stage].node;
  }
  std::uint32_t nodes_used() const;
  /// Replicas of a stage on the node that has fewest of them, of the nodes that have any.
  std::uint32_t replicas_together(std::uint32_t stage) const;
  /// Bytes of a step that pass between nodes.
  double bytes_between_nodes(const mesh_traffic& traffic) const;

private:
  mesh extents_;
  node_grid grid_;
  std::vector<device_place> groups_;      // [group]: where its tensor shard 0 lives
  std::vector<std::int64_t> group_slot_;  // [node · groups a node + slot]: the group there, or −1
};

/// The nodes that `extents` needs at least. 0 where no number will do: more tensor shards than a node has devices.
std::uint32_t nodes_needed(mesh extents, std::uint32_t devices_per_node);

/// Puts the tensor shards of a stage side by side on one node, and stages and replicas so that the fewest bytes of
/// `traffic` pass between nodes. Looked at: stages in order, replicas in order, and blocks of a·b (stages · replicas) a
/// node for every a. Of equals the first.
/// Errors: `invalid_argument` with what is missing.
result<placement> place(mesh extents, node_grid grid, const mesh_traffic& traffic);

}  // namespace troupe::planning
