#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/result.hpp"
#include "runtime/planning/training_plan.hpp"

namespace troupe::planning {

/// A way between two devices, one direction.
struct link_speed {
  double bytes_per_s = 1;  ///< as achieved
  double latency_s = 0;    ///< of a message, or of one round of a ring
};

/// Machines of one kind, and how well programs use them.
struct cluster {
  std::string name;
  double f32_flops = 1, half_flops = 1;  ///< per second, the device's peak for matrix products
  double achieved = 1;                   ///< share of the peak that large matrix products reach
  double half_speed_rows = 0;            ///< rows with which they reach half of that: what it takes to fill the device
  double memory_bytes = 1;               ///< of a device
  double memory_bytes_per_s = 1;         ///< as achieved
  link_speed inside;                     ///< between devices of a node
  link_speed between;                    ///< between nodes, for each device of a node at the same time
  std::uint32_t devices_per_node = 1;
  std::uint32_t nodes = 1;
  double message_s = 0;            ///< that a stage's device spends on each message to or from another stage
  bool overlaps_gradients = true;  ///< replicas exchange gradients while the last backwards still run

  /// Of matrix products of `rows` rows.
  double flops_per_s(const number_format& numbers, double rows) const noexcept {
    return achieved * peak_flops(numbers) * rows / (rows + half_speed_rows);
  }
  double peak_flops(const number_format& numbers) const noexcept { return numbers.half ? half_flops : f32_flops; }
};

/// A known kind of machine, one node of it. Errors: an unknown name (lists the known ones).
result<cluster> find_cluster(std::string_view preset);
std::vector<std::string_view> cluster_names();

/// Megatron-LM on Selene in 2021: a100-80g with what that program leaves undone.
/// Its figures are not the device's own but one set fitted to all ten rows of table 1 of arXiv:2104.04473.
cluster megatron_2021_cluster();

/// Time of an all-reduce of `bytes` over a ring of `members`. 0 for one. A reduce-scatter or an all-gather is half.
double all_reduce_s(double bytes, std::uint32_t members, const link_speed& link);

}  // namespace troupe::planning
