// One GPU makes groups of one member: what is tested is the way in, the operations in stream order, and the ways out.

#include <thread>

#include "gpu_bench.hpp"
#include "kernels/collectives/host_group.hpp"
#include "kernels/collectives/nccl_group.hpp"

using namespace troupe;

namespace {

std::unique_ptr<communicator> host_group_of_one() {
  return std::move(thread_group(1).join({0, 1, 1, std::chrono::seconds(20)})).value();
}

std::unique_ptr<communicator> group_of_one(gpu_bench& bench) {
  auto joined = join_nccl_group(*bench.gpu, host_group_of_one());
  INFO((joined ? "" : to_string(joined.error())));
  REQUIRE(joined);
  return *std::move(joined);
}

}  // namespace

TEST_CASE("a group of one GPU leaves tensors as they are, in stream order", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  const auto group = group_of_one(bench);
  CHECK(group->size() == 1);
  CHECK(group->memory()->where() == device{device_kind::cuda, 0});
  for (const std::int64_t n : {0, 1, 4'097, 1'000'003}) {
    const auto host = bench.uniform({n});
    const auto x = bench.upload(host), part = bench.upload(bench.make({n})), whole = bench.upload(bench.make({n}));
    REQUIRE(bench.gpu->add(x, x, x));
    REQUIRE(group->all_reduce(x));
    REQUIRE(group->all_reduce(x, reduction::max));
    REQUIRE(group->reduce_scatter(x, part));
    REQUIRE(group->all_gather(part, whole));
    REQUIRE(group->broadcast(whole, 0));
    REQUIRE(group->barrier());
    const auto got = bench.download(whole);
    REQUIRE(bench.cpu->add(host, host, host));
    CHECK(bench.bits(got) == bench.bits(host));
  }
}

TEST_CASE("after an abort from another thread an NCCL group refuses and the backend goes on", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  const auto x = bench.upload(bench.uniform({1'000}));
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto group = group_of_one(bench);
    REQUIRE(group->all_reduce(x));
    std::thread([&] { group->abort(); }).join();
    const auto refused = group->all_reduce(x);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::collective_aborted);
    CHECK(refused.error().where == "NCCL all_reduce, tensor shard 0 of 1, epoch 1: the group was aborted here");
    CHECK(bench.gpu->synchronise());
  }
}

TEST_CASE("an NCCL group refuses host memory, and what is no GPU's backend", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  CHECK_FALSE(join_nccl_group(*bench.cpu, host_group_of_one()));
  CHECK_FALSE(join_nccl_group(*bench.gpu, nullptr));
  const auto group = group_of_one(bench);
  const auto refused = group->all_reduce(bench.uniform({10}));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::invalid_argument);
}
