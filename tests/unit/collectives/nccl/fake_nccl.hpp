#pragma once

#include <atomic>

/// What the fake NCCL is to do, and what it has counted. The library exports one, `fake_nccl`.
struct fake_nccl_state {
  enum class way { well, init_fails, never_begins, call_fails, remote_error, abort_hangs };
  std::atomic<way> behaves{way::well};
  std::atomic<int> living{0}, aborts{0}, destroys{0};
};
