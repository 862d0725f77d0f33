// The owner of an NCCL communicator, on a machine without a GPU: against a fake NCCL, and with the few functions of
// CUDA's runtime that it calls defined here.

#include <dlfcn.h>

#include <thread>

#include "fake_nccl.hpp"
#include "kernels/collectives/cuda/nccl_link.hpp"
#include "members.hpp"

using namespace troupe;
using namespace troupe::collectives;
using std::chrono::milliseconds;

namespace {

std::atomic<bool> stream_is_done{true};

int& event = *new int(0);

}  // namespace

extern "C" {
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned) {
  *made = reinterpret_cast<cudaEvent_t>(&event);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return stream_is_done ? cudaSuccess : cudaErrorNotReady; }
}

namespace {

using way = fake_nccl_state::way;

fake_nccl_state& find_fake() {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library);
  void* found = dlsym(library, "fake_nccl");
  REQUIRE(found);  // else this is the real one
  return *static_cast<fake_nccl_state*>(found);
}

fake_nccl_state& fake() {
  static auto& found = find_fake();
  return found;
}

result<group::nccl_link> join(thread_group& members, std::uint32_t rank, milliseconds deadline,
                              std::uint32_t size = 2) {
  auto host = std::move(members.join({rank, size, 1, deadline})).value();
  return group::nccl_link::make(
      0, nullptr, std::unique_ptr<group::host_communicator>(&dynamic_cast<group::host_communicator&>(*host.release())));
}

status reduce(group::nccl_link& link) {
  return link.enqueue("all_reduce", [](ncclComm_t comm, cudaStream_t stream) {
    return group::nccl()->all_reduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, comm, stream);
  });
}

/// Two members, each in a thread: what each of them returns must be "".
void at_both(milliseconds deadline, const std::function<std::string(std::uint32_t, group::nccl_link&)>& act) {
  thread_group members(2);
  std::string words[2];
  const auto member = [&](std::uint32_t rank) {
    auto joined = join(members, rank, deadline);
    words[rank] = joined ? act(rank, *joined) : to_string(joined.error());
  };
  std::thread other([&] { member(1); });
  member(0);
  other.join();
  CHECK(words[0] == "");
  CHECK(words[1] == "");
  CHECK(fake().living == 0);
}

// Operations until one fails.
status until_it_fails(group::nccl_link& link) {
  for (;;) {
    TROUPE_CHECK(reduce(link));
    std::this_thread::sleep_for(milliseconds(1));
  }
}

}  // namespace

TEST_CASE("a healthy NCCL communicator is finalised and destroyed, not aborted", "[collectives]") {
  fake().behaves = way::well;
  const int aborts = fake().aborts, destroys = fake().destroys;
  at_both(milliseconds(20'000), [](std::uint32_t, group::nccl_link& link) {
    auto fault = expect_ok(reduce(link), "all_reduce");
    return fault + expect_ok(link.host().barrier(), "barrier");
  });
  CHECK(fake().destroys + fake().aborts == destroys + aborts + 2);
  CHECK(fake().destroys > destroys);  // the second one out may find the group over
}

TEST_CASE("an abort at one member aborts NCCL at all", "[collectives]") {
  fake().behaves = way::well;
  const int aborts = fake().aborts;
  at_both(milliseconds(20'000), [](std::uint32_t rank, group::nccl_link& link) {
    if (rank == 0) std::thread([&] { link.abort(); }).join();
    return expect_error(until_it_fails(link), errc::collective_aborted,
                        {"NCCL all_reduce, tensor shard", rank == 0 ? "aborted here" : "tensor shard 0 has left"});
  });
  CHECK(fake().aborts == aborts + 2);
}

TEST_CASE("an error that NCCL finds by itself ends the group with its text", "[collectives]") {
  fake().behaves = way::well;
  at_both(milliseconds(20'000), [](std::uint32_t rank, group::nccl_link& link) {
    if (auto fault = expect_ok(link.host().barrier(), "barrier"); !fault.empty()) return fault;
    if (rank == 0) fake().behaves = way::remote_error;
    const auto done = until_it_fails(link);
    return expect_error(done, errc::collective_aborted);
  });
}

TEST_CASE("a call that NCCL refuses ends the group with its text", "[collectives]") {
  fake().behaves = way::well;
  at_both(milliseconds(20'000), [](std::uint32_t rank, group::nccl_link& link) {
    if (auto fault = expect_ok(link.host().barrier(), "barrier"); !fault.empty()) return fault;
    if (rank == 1) return expect_error(until_it_fails(link), errc::collective_aborted);
    fake().behaves = way::call_fails;
    return expect_error(reduce(link), errc::collective_aborted, {"NCCL all_reduce, tensor shard 0 of 2"});
  });
}

TEST_CASE("an operation that the device does not finish meets the deadline", "[collectives]") {
  fake().behaves = way::well;
  at_both(milliseconds(300), [](std::uint32_t rank, group::nccl_link& link) {
    if (rank == 0) stream_is_done = false;
    auto fault = expect_ok(link.host().barrier(), "barrier");
    fault += expect_ok(reduce(link), "enqueuing");
    const auto start = now_ms();
    while (link.host().look() && now_ms() < start + 10'000) std::this_thread::sleep_for(milliseconds(1));
    const auto took = now_ms() - start;
    stream_is_done = true;
    if (took < 250 || took > 3'000) fault += "ended after " + std::to_string(took) + " ms";
    return fault + expect_error(reduce(link), errc::collective_aborted);
  });
}

TEST_CASE("an NCCL group that does not come about is given up at the deadline", "[collectives]") {
  fake().behaves = way::never_begins;
  thread_group alone(1);
  const auto joined = join(alone, 0, milliseconds(200), 1);
  REQUIRE_FALSE(joined);
  CHECK(joined.error().code == errc::collective_aborted);
  CHECK(joined.error().where == "NCCL joining, tensor shard 0 of 1, epoch 1: it was not begun within 200 ms");
  CHECK(fake().living == 0);
}

TEST_CASE("what NCCL refuses at the start is refused with its text", "[collectives]") {
  fake().behaves = way::init_fails;
  thread_group alone(1);
  const auto joined = join(alone, 0, milliseconds(200), 1);
  REQUIRE_FALSE(joined);
  CHECK(joined.error().code == errc::invalid_argument);
  CHECK(joined.error().where == "joining an NCCL group: invalid usage");
}

TEST_CASE("an abort that hangs inside NCCL holds up neither abort nor the member's end for ever", "[collectives]") {
  fake().behaves = way::well;
  thread_group alone(1);
  auto joined = join(alone, 0, milliseconds(100), 1);
  REQUIRE(joined);
  fake().behaves = way::abort_hangs;
  const auto start = now_ms();
  joined->abort();
  CHECK(now_ms() - start < 1'000);
  CHECK(expect_error(reduce(*joined), errc::collective_aborted, {"aborted here"}) == "");
  { const auto gone = *std::move(joined); }
  CHECK(now_ms() - start < 10'000);
  CHECK(fake().living == 1);
  fake().behaves = way::well;
  while (fake().living != 0) std::this_thread::yield();
}
