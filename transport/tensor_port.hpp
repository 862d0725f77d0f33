#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/result.hpp"
#include "kernels/core/tensor.hpp"
#include "transport/tensor_message.hpp"

namespace troupe {

/// Opaque bytes that let a peer reach a port; they travel over the control plane.
using port_address = std::vector<std::byte>;

/// The owner of a port. Calls come from the port's own thread (UCX) or from the sender's (in process), never two at a
/// time for one peer, and must not block: post to the owner and return.
class port_listener {
public:
  virtual ~port_listener() = default;
  /// The handshake with `peer` is done in both directions; tensors may flow.
  virtual void peer_ready(shard_id peer) = 0;
  /// A host tensor of exactly `spec` for a message's payload to be received into. The header has been checked (run key,
  /// epoch, checksum, length within the limits of `port_options`). An error drops the message, counted as refused.
  virtual result<tensor> destination(const message_id& id, const tensor_spec& spec) = 0;
  /// The payload has arrived, whole and verified. Its credit stays taken until `tensor_port::consumed`.
  virtual void arrived(const message_id& id, tensor payload) = 0;
  /// Once per peer and connection: everything pending to it has been given up. `why.where` names the peer.
  virtual void peer_failed(shard_id peer, const error& why) = 0;
  /// The peer said goodbye after everything sent had been received; not a failure.
  virtual void peer_closed(shard_id peer) = 0;
};

struct port_counters {
  std::uint64_t messages_sent = 0, messages_received = 0, bytes_sent = 0, bytes_received = 0;
  std::uint64_t dropped_malformed = 0;  ///< bad magic, version, header checksum, lengths that contradict each other
  std::uint64_t dropped_foreign = 0;    ///< another run's key, or a peer never connected
  std::uint64_t dropped_stale = 0;      ///< epoch below the port's
  std::uint64_t dropped_refused = 0;    ///< the listener had no destination, or payload beyond `max_payload_bytes`
  std::uint64_t dropped_corrupt = 0;    ///< payload checksum
  std::uint64_t waits_for_credit = 0;   ///< sends that had to queue
};

/// One shard's door to the data plane. `connect`, `send`, `consumed`, `disconnect` and `counters` may be called from
/// any thread; they hand over and return. A send never blocks its caller: without credit the tensor waits in the port
/// (the schedule bounds how many), and it keeps its reference until the payload has left.
class tensor_port {
public:
  /// Force-closes what is still open and joins nothing that is not its own. Its listener is told nothing, and is not
  /// called any more once this returns.
  virtual ~tensor_port() = default;

  virtual shard_id self() const noexcept = 0;
  virtual const port_address& address() const noexcept = 0;

  /// Starts the handshake with `peer`, repeated until `handshake_timeout`; then `peer_ready` or `peer_failed`. (In
  /// process there is no deadline.) Ignored while a connection stands: the last one must have failed, closed, or been
  /// abandoned. Both sides call it. `credits` is how many messages the peer may have unconsumed here.
  virtual void connect(shard_id peer, port_address where, std::uint32_t credits) = 0;
  /// Sends a contiguous host tensor to `id.destination`, which must be connected (else it is counted as foreign and
  /// dropped, with `peer_failed` already given); before the handshake is done it waits. The bytes must not change until
  /// the tensor's last reference here is dropped.
  virtual void send(const message_id& id, tensor payload) = 0;
  /// Gives the credit of an arrived message back to its sender.
  virtual void consumed(const message_id& id) = 0;
  /// Sends what is queued, waits until it was received, says goodbye; ends in `peer_closed` (or `peer_failed`).
  virtual void disconnect(shard_id peer) = 0;
  /// Gives `peer` up at once: its death came from elsewhere (process exit, supervisor). Ends in `peer_failed`.
  virtual void abandon(shard_id peer, const error& why) = 0;
  /// Messages of a lower epoch are dropped from now on.
  virtual void set_epoch(std::uint32_t epoch) = 0;

  virtual port_counters counters() const = 0;
  /// What carries the bytes, for logs: "in process", "ucx posix", "ucx tcp lo".
  virtual std::string route(shard_id peer) const = 0;
};

}  // namespace troupe
