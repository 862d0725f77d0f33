// How connections begin and end.
#include <fmt/format.h>

#include <algorithm>

#include "transport/ucx_engine.hpp"
#include "transport/ucx_error.hpp"

namespace troupe {

namespace {

bool same_port(std::uint64_t token, std::uint64_t other) noexcept { return token >> 32 == other >> 32; }

}  // namespace

/// A new endpoint, as many times as the peer has made one. Once it is connected, `settle` greets the peer.
void ucx_engine::ask(ucx_peer& peer, clock::time_point now) {
  using namespace std::chrono_literals;
  // Rarely two endpoints made at the same instant never find each other over tcp; a new one does.
  peer.retry_at = now + std::max<clock::duration>(options_.handshake_timeout / 4, 100ms);
  peer.way_open = false;
  alarm_ = true;
  do {
    retire_endpoint(peer);
    ++peer.endpoints_made;
    auto endpoint = ucp_endpoint::make(worker_.get(), peer.where, alarm_);
    if (!endpoint) {
      peer.last_trouble = endpoint.error().where;
      return;
    }
    peer.endpoint = *std::move(endpoint);
  } while (peer.endpoints_made < peer.endpoints_wanted);
  // Over tcp, UCX 1.13 aborts when a peer dies while UCX's answer to it waits for a connection. So the first frame
  // waits until our own connection stands: who has heard from us can be answered by us at once.
  peer.endpoint->flush();
}

/// The first frames over a new endpoint.
void ucx_engine::greet(ucx_peer& peer) {
  peer.way_open = true;
  if (peer.their_token != 0) send_control(peer, frame_type::hello_ack);
  say_hello(peer);
  become_ready(peer);
}

void ucx_engine::say_hello(ucx_peer& peer) { send_control(peer, frame_type::hello, peer.token, peer.granted); }

void ucx_engine::on_hello(const wire_header& header) {
  ucx_peer& peer = *entry(header.source, true);
  constexpr std::uint32_t most_at_once = 64;
  peer.endpoints_wanted = std::min(header.incarnation, peer.endpoints_made + most_at_once);
  if (peer.stage == peer_stage::closed || peer.failure) return;  // it asks before we do; our hello will be answered
  const bool again = header.number == peer.their_token;
  if (!again && same_port(header.number, peer.their_token) && header.number < peer.their_token) {
    return counters_.dropped_stale.add();
  }
  const bool lost_way = peer.endpoints_wanted > peer.endpoints_made;
  if (peer.stage != peer_stage::asking && (!again || (lost_way && peer.sent > 0))) {
    return give_up(peer, {errc::peer_unreachable, "it has given this connection up and asks for a new one"});
  }
  peer.their_token = header.number;
  peer.draft = frame_to(peer, frame_type::tensor);
  if (!again) peer.their_grant = peer.send_credits = header.credits;
  if (lost_way) {
    peer.way_open = false;
    alarm_ = true;  // `settle` asks anew: no endpoint is made or closed within UCX's callbacks
  }
  if (!peer.way_open) return;  // `greet` will answer
  send_control(peer, frame_type::hello_ack);
  if (!again && !peer.acknowledged) say_hello(peer);  // ours may have come before they asked
  become_ready(peer);
}

void ucx_engine::become_ready(ucx_peer& peer) {
  if (peer.stage != peer_stage::asking || !peer.acknowledged || peer.their_token == 0 || !peer.way_open) return;
  peer.stage = peer_stage::open;
  if (listener_) listener_->peer_ready(peer.id);
  pump(peer);
}

void ucx_engine::begin_goodbye(ucx_peer& peer) {
  if (peer.stage == peer_stage::open) {
    peer.stage = peer_stage::closing;
    peer.deadline = clock::now() + options_.drain_timeout;
  }
  advance_goodbye(peer);
}

void ucx_engine::advance_goodbye(ucx_peer& peer) {
  if (peer.stage != peer_stage::closing) return;
  if (!peer.bye_sent && peer.waiting.empty()) {
    peer.bye_sent = true;
    send_control(peer, frame_type::bye, peer.sent);
  }
  if (!peer.bye_ack_sent && peer.their_total && peer.received >= *peer.their_total) {
    peer.bye_ack_sent = true;
    send_control(peer, frame_type::bye_ack);
  }
  if (peer.bye_acknowledged && peer.bye_ack_sent) {
    peer.stage = peer_stage::finishing;
    alarm_ = true;
  }
}

void ucx_engine::give_up(ucx_peer& peer, error why) {
  if (!peer.failure) peer.failure = std::move(why);
  alarm_ = true;
}

void ucx_engine::check_deadlines(clock::time_point now) {
  for (auto& [id, peer] : peers_) {
    if (peer.stage == peer_stage::asking && now >= peer.deadline) {
      give_up(peer, {errc::timed_out, fmt::format("no handshake within {} ms {}", options_.handshake_timeout.count(),
                                                  peer.last_trouble)});
    } else if (peer.stage == peer_stage::asking && now >= peer.retry_at) {
      alarm_ = true;
    } else if (peer.stage == peer_stage::closing && now >= peer.deadline) {
      give_up(peer, {errc::timed_out, fmt::format("no goodbye within {} ms, {} tensors still queued",
                                                  options_.drain_timeout.count(), peer.waiting.size())});
    }
  }
  settle();
}

void ucx_engine::settle_slowly() {
  if (std::exchange(alarm_, false) || unsettled_) {
    const auto now = clock::now();
    unsettled_ = false;
    for (auto& [id, peer] : peers_) settle(peer, now);
  }
  sweep_closing();
}

void ucx_engine::settle(ucx_peer& peer, clock::time_point now) {
  if (peer.stage == peer_stage::closed) return;
  const auto trouble = peer.endpoint ? peer.endpoint->failure() : UCS_OK;
  if (peer.failure) {
    end_with_failure(peer);
  } else if (peer.stage == peer_stage::finishing) {
    if (peer.endpoint && !std::exchange(peer.flushing, true)) peer.endpoint->flush();
    const bool over = !peer.endpoint || peer.endpoint->flushed() || trouble != UCS_OK || now >= peer.deadline;
    if (over) return end_with_goodbye(peer);
    unsettled_ = true;
  } else if (peer.endpoints_wanted > peer.endpoints_made ||
             (peer.stage == peer_stage::asking && now >= peer.retry_at)) {
    ask(peer, now);
  } else if (trouble != UCS_OK && peer.stage == peer_stage::asking) {
    peer.last_trouble = fmt::format("(the last try ended with: {})", ucs_status_string(trouble));
    peer.way_open = false;
    retire_endpoint(peer);
  } else if (trouble != UCS_OK) {
    peer.failure = ucx_error(errc::peer_unreachable, trouble, "the connection broke");
    end_with_failure(peer);
  } else if (peer.their_total && peer.connected()) {
    begin_goodbye(peer);
  } else if (peer.stage == peer_stage::asking && peer.endpoint && !peer.way_open) {
    if (peer.endpoint->flushed()) return greet(peer);
    unsettled_ = true;
  }
}

void ucx_engine::end_with_failure(ucx_peer& peer) {
  const error why = *std::exchange(peer.failure, std::nullopt);
  peer.stage = peer_stage::closed;
  peer.waiting.clear();
  retire_endpoint(peer);
  if (!listener_) return;
  listener_->peer_failed(peer.id, {why.code, fmt::format("peer {}: {}", to_string(peer.id), why.where), why.native});
}

void ucx_engine::end_with_goodbye(ucx_peer& peer) {
  peer.stage = peer_stage::closed;
  peer.waiting.clear();
  retire_endpoint(peer);
  if (listener_) listener_->peer_closed(peer.id);
}

void ucx_engine::retire_endpoint(ucx_peer& peer) {
  if (!peer.endpoint) return;
  peer.endpoint->close();
  if (options_.route == port_route::shared_memory) orphan_operations(peer);
  closing_.push_back(std::move(peer.endpoint));
}

/// UCX 1.13 never ends a rendezvous over shared memory whose endpoint is closed by force while its queue to the peer is
/// full, as the queue to a dead or stopped peer soon is. The closed endpoint reads no payload any more, so what was to
/// be sent is let go here. What was to be received stays: a frame that is still in our own queue might be written into
/// it.
void ucx_engine::orphan_operations(ucx_peer& peer) {
  sends_.for_each([&](send_operation& operation) {
    if (operation.endpoint != peer.endpoint.get()) return;
    operation.endpoint->end_operation();
    operation.endpoint = nullptr;
    operation.payload = {};
    ++orphans_;
  });
  receives_.for_each([&](receive_operation& operation) {
    if (operation.peer != &peer) return;
    operation.peer = nullptr;
    ++orphans_;
  });
}

void ucx_engine::sweep_closing() {
  std::erase_if(closing_, [](const auto& endpoint) { return endpoint->finished(); });
}

}  // namespace troupe
