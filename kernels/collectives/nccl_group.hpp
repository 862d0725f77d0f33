#pragma once

#include <memory>

#include "kernels/collectives/communicator.hpp"
#include "kernels/ops/backend.hpp"

namespace troupe {

/// A member of a group whose shards own one GPU each, of one node, and meet through NCCL. `host` is the same member's
/// end of a host group: NCCL's identifier travels through it, a death or an abort of any member is noticed through it
/// (NCCL notices none), and its deadline is this group's too. `ops` is the member's CUDA backend, and outlives the
/// communicator; operations are enqueued on its stream and return, but for `barrier`, which is the host group's.
///
/// A thread of each member's own watches the group. Once it is over, by whatever cause, each member's NCCL communicator
/// is aborted, so that kernels that wait for a lost member end and a `synchronise` of the backend returns; from the
/// next operation on the caller learns of it. Where NCCL's own abort does not return, nothing waits for it past the
/// deadline: but what waits for the device then does not end, and the process should.
///
/// Members' sizes are not compared: those that disagree meet the deadline, counted from the last operation enqueued.
/// NCCL orders sums its own way: the same bits at every member, but not those of the host's collectives.
/// Errors: `invalid_argument` (built without NCCL, `ops` is no CUDA backend, `host` no host group, two members on one
/// GPU), `collective_aborted`.
result<std::unique_ptr<communicator>> join_nccl_group(backend& ops, std::unique_ptr<communicator> host);

}  // namespace troupe
