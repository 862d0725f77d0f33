#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "transport/fifo.hpp"
#include "transport/tensor_port.hpp"
#include "transport/ucp_endpoint.hpp"
#include "transport/wire_header.hpp"

namespace troupe {

/// Where a connection stands:
///
///   closed ──connect──▶ asking ──hello and hello_ack──▶ open ──disconnect or bye──▶ closing ──both acked──▶ finishing
///      ▲                   │                              │                            │                       │
///      └──── failed ◀──────┴── deadline, endpoint broken, abandon, peer connected anew ┘        flushed ───────┘
enum class peer_stage : std::uint8_t {
  closed,
  asking,
  open,
  closing,    ///< what is queued still leaves; bye and bye_ack in both directions end it
  finishing,  ///< all is said; the last frame leaves this process
};

/// A tensor that waits for credit or for the handshake.
struct parcel {
  message_id id;
  tensor payload;
};

/// What the engine remembers of one peer. Kept over reconnections; `begin` forgets the connection before.
struct ucx_peer {
  using clock = std::chrono::steady_clock;

  shard_id id;
  peer_stage stage = peer_stage::closed;
  port_address where;
  std::unique_ptr<ucp_endpoint> endpoint;
  /// UCX joins the n-th endpoint that one worker makes for another to the n-th that the other makes for it, and nothing
  /// joins two of different numbers. So both sides count, say their count in each hello, and the lower one catches up.
  std::uint32_t endpoints_made = 0, endpoints_wanted = 0;
  bool way_open = false;         ///< the endpoint is connected, as far as UCX connects it by itself
  std::optional<error> failure;  ///< to be told and acted upon once outside UCX's callbacks
  clock::time_point deadline;    ///< of the handshake, or of the goodbye
  clock::time_point retry_at;    ///< the next hello, by a new endpoint
  std::string last_trouble;      ///< of the handshake, for the error when its time is up

  wire_header draft;              ///< what every tensor to them has in its header
  std::uint64_t token = 0;        ///< ours: the peer's frames carry it
  std::uint64_t their_token = 0;  ///< 0 until their hello
  bool acknowledged = false;      ///< they know our token

  std::uint32_t granted = 0;       ///< how many tensors they may have unconsumed here
  std::uint32_t unconsumed = 0;    ///< arriving or arrived here, not yet consumed
  std::uint32_t owed = 0;          ///< consumed, credit not yet given back
  std::uint32_t send_credits = 0;  ///< how many more tensors they take
  std::uint32_t their_grant = 0;
  fifo<parcel> waiting;

  std::uint64_t sent = 0;      ///< tensors of this connection
  std::uint64_t received = 0;  ///< likewise, delivered or dropped
  std::optional<std::uint64_t> their_total;
  bool bye_sent = false, bye_acknowledged = false, bye_ack_sent = false, flushing = false;

  bool connected() const noexcept { return stage == peer_stage::open || stage == peer_stage::closing; }

  /// Forgets the last connection and starts to ask for a new one.
  void begin(port_address address, std::uint32_t credits, std::uint64_t new_token, clock::time_point give_up_at) {
    ucx_peer fresh;
    fresh.id = id;
    fresh.endpoints_made = address == where ? endpoints_made : 0;
    fresh.endpoints_wanted = endpoints_wanted;
    *this = std::move(fresh);
    stage = peer_stage::asking;
    where = std::move(address);
    granted = credits;
    token = new_token;
    deadline = give_up_at;
  }
};

}  // namespace troupe
