#include <set>

#include "catch.hpp"
#include "runtime/planning/placement.hpp"

using namespace troupe;
using namespace troupe::planning;

namespace {

/// As much for every pair of neighbours, nothing round the end; and as much of gradients for every stage.
mesh_traffic traffic(std::uint32_t stages, double hop, double gradients) {
  mesh_traffic t{std::vector<double>(stages, hop), std::vector<double>(stages, gradients)};
  t.neighbours.back() = 0;
  return t;
}

placement placed(mesh m, node_grid grid, const mesh_traffic& t) {
  auto where = place(m, grid, t);
  REQUIRE(where);
  return std::move(*where);
}

std::string refusal(mesh m, node_grid grid) {
  const auto where = place(m, grid, traffic(m.stages, 1, 1));
  return where ? "it was placed" : where.error().where;
}

}  // namespace

TEST_CASE("every shard has a device of its own, and tensor shards of a stage share a node", "[placement]") {
  const mesh m{GENERATE(1U, 2U, 3U, 5U), GENERATE(1U, 2U, 3U), GENERATE(1U, 2U, 3U, 4U)};
  const std::uint32_t devices = GENERATE(4U, 8U);
  CAPTURE(m.stages, m.replicas, m.shards, devices);
  const node_grid grid{nodes_needed(m, devices) + GENERATE(0U, 2U), devices};
  const auto where = placed(m, grid, traffic(m.stages, GENERATE(0.0, 1.0, 100.0), 10));
  std::set<device_place> taken;
  for (std::uint32_t w = 0; w < m.size(); ++w) {
    const auto shard = m.shard_at(w);
    const auto at = where.place_of_worker(w);
    CHECK(at.node < grid.nodes);
    CHECK(at.device < grid.devices);
    CHECK(taken.insert(at).second);
    CHECK(where.shard_on(at) == shard);
    CHECK(at.node == where.node_of(shard.replica, shard.stage));
  }
}

TEST_CASE("neighbours of a pipeline share a node when their messages are what costs", "[placement]") {
  // Two nodes of four: two replicas of four stages.
  const auto where = placed({4, 2, 1}, {2, 4}, traffic(4, 100, 1));
  for (std::uint32_t s = 0; s < 4; ++s) {
    CHECK(where.node_of(0, s) == 0);
    CHECK(where.node_of(1, s) == 1);
  }
  CHECK(where.replicas_together(0) == 1);
}

TEST_CASE("replicas of a stage share a node when their gradients are what costs", "[placement]") {
  const auto where = placed({4, 2, 1}, {2, 4}, traffic(4, 1, 100));
  for (std::uint32_t s = 0; s < 4; ++s) {
    CHECK(where.node_of(0, s) == s / 2);
    CHECK(where.node_of(1, s) == s / 2);
  }
  CHECK(where.replicas_together(0) == 2);
  CHECK(where.bytes_between_nodes(traffic(4, 1, 100)) == 2);  // one message a replica
}

TEST_CASE("a node takes a block of stages and replicas where neither alone is best", "[placement]") {
  // Four nodes of four devices, four stages, four replicas. In order of stages every gradient leaves, 4·4 crossings; in
  // order of replicas every message. Blocks of two by two: 4 messages, and rings over 2 nodes each.
  const auto t = traffic(4, 10, 4);
  const auto where = placed({4, 4, 1}, {4, 4}, t);
  CHECK(where.node_of(0, 0) == where.node_of(1, 1));
  CHECK(where.node_of(0, 0) != where.node_of(2, 0));
  CHECK(where.bytes_between_nodes(t) == Approx(4 * 10 + 4 * (2 * 2 * 0.75 * 4)));
}

TEST_CASE("no arrangement of a small mesh has fewer bytes between nodes", "[placement]") {
  // All 6!/(3!·3!) ways to give six groups to two nodes of three.
  const mesh m{3, 2, 1};
  const auto t = traffic(3, GENERATE(1.0, 5.0, 20.0), GENERATE(1.0, 5.0, 20.0));
  double fewest = 1e300;
  for (unsigned set = 0; set < 64; ++set) {
    std::vector<device_place> groups;
    std::uint32_t used[2] = {0, 0};
    for (unsigned g = 0; g < 6; ++g) {
      const auto node = (set >> g) & 1U;
      groups.push_back({node, used[node]++ % 3});
    }
    if (used[0] == 3) fewest = std::min(fewest, placement(m, {2, 3}, groups).bytes_between_nodes(t));
  }
  CHECK(placed(m, {2, 3}, t).bytes_between_nodes(t) == Approx(fewest));
}

TEST_CASE("a mesh that has no room is told what is missing", "[placement]") {
  CHECK(refusal({2, 1, 16}, {4, 8}) ==
        "the 16 tensor shards of a stage must share a node, and a node has 8 devices; choose parallel.tp up to 8, or "
        "nodes with more devices");
  CHECK(refusal({64, 6, 8}, {383, 8}) ==
        "64 stages · 6 replicas · 8 tensor shards need 384 nodes of 8 devices, and there are 383: 1 missing; set "
        "cluster.nodes = 384, or choose a smaller mesh");
  CHECK(nodes_needed({2, 2, 3}, 8) == 2);  // two devices of each node stay idle
  CHECK(nodes_needed({1, 1, 9}, 8) == 0);
}
