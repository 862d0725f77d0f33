#include "kernels/collectives/cuda/nccl_link.hpp"

#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "kernels/ops/cuda/cuda_error.hpp"

namespace troupe::group {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds look_every{50};
// How long a member that leaves in health waits for the others to do the same: their kernels may still read its memory.
constexpr std::chrono::milliseconds goodbye{2'000};

std::string text_of(ncclResult_t code) { return nccl()->error_string(code); }

bool failed(ncclResult_t code) { return code != ncclSuccess && code != ncclInProgress; }

}  // namespace

struct nccl_link::state {
  ~state() {
    if (last) cudaEventDestroy(last);
  }
  std::chrono::milliseconds deadline() const { return host->settings().deadline; }
  std::string name() const {
    const auto& s = host->settings();
    return fmt::format("tensor shard {} of {}, epoch {}", s.rank, s.size, s.epoch);
  }
  error aborted(std::string_view what) const {
    return {errc::collective_aborted, fmt::format("NCCL {}, {}: {}", what, name(), why), native};
  }
  void fail(std::string because, int code = 0) {  // with `mutex` held
    if (!over) {
      over = true;
      why = std::move(because);
      native = code;
    }
    host->abort();  // the other members' watchers see it
    changed.notify_all();
  }
  status settle(std::string_view what);
  void watch();
  void look();
  bool finish();

  std::unique_ptr<host_communicator> host;
  int device_index = 0;
  cudaStream_t stream = nullptr;  // borrowed

  std::mutex mutex;  // of all below; never held while waiting for other members
  std::condition_variable changed;
  ncclComm_t link = nullptr;
  cudaEvent_t last = nullptr;                 // after the last operation
  std::optional<clock::time_point> enqueued;  // the last operation, until it is seen to be done
  bool over = false, leaving = false, ended = false;
  std::string why;
  int native = 0;
};

// Until NCCL has done what was asked of it on the host's side.
status nccl_link::state::settle(std::string_view what) {
  const auto give_up_at = clock::now() + deadline();
  for (int looks = 0;; ++looks) {
    {
      std::lock_guard lock(mutex);
      if (over) return aborted(what);
      ncclResult_t now = ncclSuccess;
      const auto code = nccl()->get_async_error(link, &now);
      if (!failed(code) && now == ncclSuccess) return {};
      if (failed(code) || failed(now)) fail(text_of(failed(code) ? code : now), failed(code) ? code : now);
      if (clock::now() > give_up_at) fail(fmt::format("it was not begun within {} ms", deadline().count()));
    }
    looks < 1'000 ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void nccl_link::state::look() {
  ncclResult_t now = ncclSuccess;
  if (nccl()->get_async_error(link, &now) == ncclSuccess && failed(now)) return fail(text_of(now), now);
  if (auto alive = host->look(); !alive) return fail(alive.error().where);
  if (!enqueued) return;
  const auto done = cudaEventQuery(last);
  if (done == cudaSuccess) {
    enqueued.reset();
  } else if (done != cudaErrorNotReady) {
    fail(cudaGetErrorString(done), done);
  } else if (clock::now() > *enqueued + deadline()) {
    fail(fmt::format("an operation was not done within {} ms", deadline().count()));
  }
}

// In health, and with all others. False: abort.
bool nccl_link::state::finish() {
  const auto give_up_at = clock::now() + goodbye;
  if (failed(nccl()->finalize(link))) return false;
  ncclResult_t now = ncclInProgress;
  while (nccl()->get_async_error(link, &now) == ncclSuccess && now == ncclInProgress) {
    if (clock::now() > give_up_at || !host->look()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return now == ncclSuccess && nccl()->destroy(link) == ncclSuccess;
}

void nccl_link::state::watch() {
  cudaSetDevice(device_index);
  std::unique_lock lock(mutex);
  while (!over && !leaving)
    if (!changed.wait_for(lock, look_every, [&] { return over || leaving; })) look();
  if (leaving && !over) look();
  const bool healthy = !over;
  over = true;  // nobody uses the communicator from here on
  lock.unlock();
  if (!healthy || !finish()) nccl()->abort(link);
  lock.lock();
  ended = true;
  changed.notify_all();
}

nccl_link::nccl_link(std::shared_ptr<state> owned) : state_(std::move(owned)), watcher_([s = state_] { s->watch(); }) {}

nccl_link::~nccl_link() {
  if (!state_) return;  // moved from
  std::unique_lock lock(state_->mutex);
  state_->leaving = true;
  state_->changed.notify_all();
  const bool ended = state_->changed.wait_for(lock, goodbye + state_->deadline(), [&] { return state_->ended; });
  lock.unlock();
  ended ? watcher_.join() : watcher_.detach();
}

host_communicator& nccl_link::host() const noexcept { return *state_->host; }

void nccl_link::abort() noexcept {
  std::lock_guard lock(state_->mutex);
  state_->fail("the group was aborted here");
}

result<nccl_link> nccl_link::make(int device_index, cudaStream_t stream, std::unique_ptr<host_communicator> host) {
  if (!nccl()) return nccl().error();
  auto s = std::make_shared<state>();
  s->host = std::move(host);
  s->device_index = device_index;
  s->stream = stream;
  buffer_pool memory(s->host->memory());
  TROUPE_TRY(const auto id, tensor::make(memory, {dtype::u8, {sizeof(ncclUniqueId)}}));
  if (s->host->rank() == 0) {
    ncclUniqueId fresh;
    if (const auto code = nccl()->get_unique_id(&fresh); code != ncclSuccess)
      return error{errc::device_lost, fmt::format("naming an NCCL group: {}", text_of(code)), code};
    std::memcpy(id.raw(), &fresh, sizeof fresh);
  }
  TROUPE_CHECK(s->host->broadcast(id, 0));
  TROUPE_CHECK(from_cuda(cudaSetDevice(device_index), "choosing a CUDA device"));
  TROUPE_CHECK(from_cuda(cudaEventCreateWithFlags(&s->last, cudaEventDisableTiming), "making a CUDA event"));
  ncclUniqueId name;
  std::memcpy(&name, id.raw(), sizeof name);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const auto code =
      nccl()->init_rank(&s->link, static_cast<int>(s->host->size()), name, static_cast<int>(s->host->rank()), &config);
  if (s->link == nullptr)
    return error{code == ncclInvalidUsage || code == ncclInvalidArgument ? errc::invalid_argument : errc::device_lost,
                 fmt::format("joining an NCCL group: {}", text_of(code)), code};
  nccl_link made(s);
  TROUPE_CHECK(s->settle("joining"));
  return made;
}

status nccl_link::enqueue(std::string_view what, const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& call) {
  TROUPE_CHECK(from_cuda(cudaSetDevice(state_->device_index), "choosing a CUDA device"));
  {
    std::lock_guard lock(state_->mutex);
    if (auto going = state_->host->going(); !going) state_->fail(going.error().where);  // before the watcher sees it
    if (state_->over) return state_->aborted(what);
    if (const auto code = call(state_->link, state_->stream); failed(code)) state_->fail(text_of(code), code);
  }
  TROUPE_CHECK(state_->settle(what));
  std::lock_guard lock(state_->mutex);
  TROUPE_CHECK(from_cuda(cudaEventRecord(state_->last, state_->stream), "recording a CUDA event"));
  state_->enqueued = clock::now();
  return {};
}

}  // namespace troupe::group
