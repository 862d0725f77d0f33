#include "gpu_bench.hpp"

using namespace troupe;

TEST_CASE("what was copied to the GPU comes back, through both kinds of host memory", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  buffer_pool pinned(bench.gpu->staging_memory());
  CHECK(pinned.where() == device{});
  CHECK(bench.gpu->memory()->where() == device{device_kind::cuda, 0});
  const auto x = bench.uniform({123, 457});
  auto staged = tensor::make(pinned, x.spec());
  REQUIRE(staged);
  REQUIRE(bench.gpu->copy(bench.upload(x), *staged));
  REQUIRE(bench.gpu->synchronise());
  CHECK(bench.bits(*staged) == bench.bits(x));
  CHECK(bench.bits(bench.download(bench.upload(*staged))) == bench.bits(x));
}

TEST_CASE("a host tensor is not reused before its copy is done", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  buffer_pool pinned(bench.gpu->staging_memory());
  const auto there = bench.upload(bench.make({1 << 20}));
  auto from = tensor::make(pinned, there.spec());
  REQUIRE(from);
  const void* place = from->raw();
  REQUIRE(bench.gpu->copy(*from, there));
  from = tensor();
  const auto next = tensor::make(pinned, there.spec());
  REQUIRE(next);
  CHECK(next->raw() != place);
  REQUIRE(bench.gpu->synchronise());
  CHECK(tensor::make(pinned, there.spec()).value().raw() == place);
}

TEST_CASE("device memory that is not there is refused with the sizes, and the backend goes on", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  const auto refused = bench.gpu->memory()->allocate(std::size_t{1} << 50);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::out_of_memory);
  CHECK(refused.error().where.find("allocating 1125899906842624 bytes on cuda:0, where ") == 0);
  bench.compare({bench.make({5})}, 0, [](backend& ops, const auto& t) { return ops.fill(t[0], 1); });
}
