// The frames of the data plane, out and in. What is called from `on_frame` runs within UCX's progress: it may send, it
// may not close an endpoint.
#include <algorithm>
#include <cstring>

#include "transport/ucx_engine.hpp"
#include "transport/ucx_error.hpp"

namespace troupe {

namespace {

/// The receiver had no room or no wish for a message: it has counted that, the connection is sound.
bool is_refusal(ucs_status_t status) noexcept { return status == UCS_ERR_REJECTED; }

}  // namespace

wire_header ucx_engine::frame_to(const ucx_peer& peer, frame_type type) const noexcept {
  wire_header header;
  header.type = type;
  header.source = self_;
  header.destination = peer.id;
  header.connection = type == frame_type::hello ? 0 : peer.their_token;
  return header;
}

void ucx_engine::send_control(ucx_peer& peer, frame_type type, std::uint64_t number, std::uint32_t credits) {
  if (!peer.endpoint) return;  // between two tries of a handshake
  send_operation* operation = sends_.take();
  wire_header header = frame_to(peer, type);
  header.number = number;
  header.credits = credits;
  if (type == frame_type::hello) header.incarnation = peer.endpoints_made;
  codec_.encode(header, operation->header);
  // The answer to a hello asks UCX for its own answer, so that it resolves the peer's endpoint before any tensor:
  // without that, over shared memory, a peer's death is never noticed once its queue is full.
  post(peer, operation, {}, type == frame_type::hello_ack ? unsigned{UCP_AM_SEND_FLAG_REPLY} : 0U);
}

void ucx_engine::transmit(ucx_peer& peer, const message_id& id, tensor&& payload) {
  send_operation* operation = sends_.take();
  wire_header header = peer.draft;
  describe(header, id, payload.spec());
  header.credits = std::exchange(peer.owed, 0);
  if (options_.payload_checksum) {
    header.flags = wire_header::has_payload_checksum;
    header.payload_checksum = payload_checksum(payload.raw(), payload.bytes());
  }
  codec_.encode(header, operation->header);
  --peer.send_credits;
  ++peer.sent;
  post(peer, operation, std::move(payload), 0U);
}

void ucx_engine::post(ucx_peer& peer, send_operation* operation, tensor&& payload, unsigned flags) {
  operation->engine = this;
  operation->endpoint = peer.endpoint.get();
  operation->endpoint->begin_operation();
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = flags;
  param.user_data = operation;
  param.cb.send = [](void* request, ucs_status_t status, void* user_data) {
    auto* done = static_cast<send_operation*>(user_data);
    done->payload = {};
    done->engine->complete(done, status);
    ucp_request_free(request);
  };
  const auto header = operation->header.bytes();
  void* request = ucp_am_send_nbx(operation->endpoint->get(), 0, header.data(), header.size(),
                                  payload ? payload.raw() : nullptr, payload ? payload.bytes() : 0, &param);
  if (!UCS_PTR_IS_PTR(request)) return complete(operation, UCS_PTR_STATUS(request));  // no callback will come
  operation->payload = std::move(payload);                                            // a callback cannot have come yet
}

void ucx_engine::complete(send_operation* operation, ucs_status_t status) noexcept {
  if (ucp_endpoint* endpoint = std::exchange(operation->endpoint, nullptr)) {
    endpoint->end_operation();
    if (status != UCS_OK && !is_refusal(status)) endpoint->note_failure(status);
  } else {
    --orphans_;
  }
  sends_.give_back(operation);
}

void ucx_engine::pump(ucx_peer& peer) {
  while (peer.send_credits > 0 && !peer.waiting.empty()) {
    parcel next = peer.waiting.pop();
    transmit(peer, next.id, std::move(next.payload));
  }
  if (peer.stage == peer_stage::closing) advance_goodbye(peer);
}

ucs_status_t ucx_engine::on_frame(void* engine, const void* header, std::size_t header_length, void* data,
                                  std::size_t length, const ucp_am_recv_param_t* param) {
  const bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const std::span bytes(static_cast<const std::byte*>(header), header_length);
  const bool wanted = static_cast<ucx_engine*>(engine)->on_frame(bytes, data, length, rendezvous);
  // An unwanted rendezvous is answered, else the sender would be told that all is well and keep nothing to go by.
  return wanted || !rendezvous ? UCS_OK : UCS_ERR_REJECTED;
}

bool ucx_engine::on_frame(std::span<const std::byte> bytes, void* data, std::size_t length, bool rendezvous) {
  wire_header& header = incoming_;
  const header_fault fault = codec_.decode(bytes, header);
  if (fault == header_fault::foreign_run) {
    counters_.dropped_foreign.add();
    return false;
  }
  if (fault != header_fault::none || header.payload_bytes != length) {
    counters_.dropped_malformed.add();
    return false;
  }
  if (header.destination != self_) {
    counters_.dropped_foreign.add();
    return false;
  }
  if (header.type == frame_type::hello) {
    on_hello(header);
    return true;
  }
  ucx_peer* found = entry(header.source, false);
  if (!found) {
    counters_.dropped_foreign.add();
    return false;
  }
  ucx_peer& peer = *found;
  const bool alive = peer.connected() || peer.stage == peer_stage::asking;
  const bool current = alive && header.connection == peer.token;
  if (!current || peer.failure) {
    counters_.dropped_stale.add();
    return false;
  }
  if (peer.stage == peer_stage::asking) {
    peer.acknowledged = true;  // whatever carries our token proves that the peer knows it
    become_ready(peer);
    if (!peer.connected()) return false;  // its way to us works, ours to it is being made anew
  }
  if (header.credits > 0) take_credits(peer, header.credits);
  if (header.type == frame_type::tensor) return on_tensor(peer, header, data, rendezvous);
  on_control(peer, header);
  return true;
}

void ucx_engine::on_control(ucx_peer& peer, const wire_header& header) {
  if (header.type == frame_type::bye) {
    peer.their_total = header.number;
    alarm_ = true;  // answered by `settle`, after what our owner has sent by now
  } else if (header.type == frame_type::bye_ack) {
    peer.bye_acknowledged = peer.bye_sent;
    advance_goodbye(peer);
  }
}

shared_counters::counter* ucx_engine::objection_to(const ucx_peer& peer, const wire_header& header) noexcept {
  if (header.epoch < epoch_.load(std::memory_order_relaxed)) return &counters_.dropped_stale;
  if (header.payload_bytes > options_.max_payload_bytes) return &counters_.dropped_refused;
  if (peer.unconsumed > peer.granted) return &counters_.dropped_refused;  // more than we gave credit for
  return nullptr;
}

bool ucx_engine::on_tensor(ucx_peer& peer, const wire_header& header, void* data, bool rendezvous) {
  ++peer.unconsumed;
  if (auto* objection = objection_to(peer, header)) return drop(peer, *objection);
  if (!rendezvous && !intact(header, data)) return drop(peer, counters_.dropped_corrupt);
  if (!listener_) return false;
  const message_id id = id_of(header);
  const tensor_spec spec = spec_of(header);
  auto room = listener_->destination(id, spec);
  if (!room || room->spec() != spec) return drop(peer, counters_.dropped_refused);
  if (rendezvous && header.payload_bytes > 0) {
    fetch(peer, header, *std::move(room), data);
  } else {
    if (header.payload_bytes > 0) std::memcpy(room->raw(), data, header.payload_bytes);
    deliver(peer, id, *std::move(room));
  }
  return true;
}

bool ucx_engine::intact(const wire_header& header, const void* payload) const noexcept {
  return header.flags != wire_header::has_payload_checksum ||
         header.payload_checksum == payload_checksum(payload, header.payload_bytes);
}

void ucx_engine::fetch(ucx_peer& peer, const wire_header& header, tensor&& room, void* descriptor) {
  receive_operation* operation = receives_.take();
  operation->header = header;
  operation->payload = std::move(room);
  operation->engine = this;
  operation->peer = &peer;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.user_data = operation;
  param.cb.recv_am = [](void* request, ucs_status_t status, std::size_t, void* user_data) {
    auto* done = static_cast<receive_operation*>(user_data);
    ucp_request_free(request);
    done->engine->fetched(done, status);
  };
  void* request =
      ucp_am_recv_data_nbx(worker_.get(), descriptor, operation->payload.raw(), operation->payload.bytes(), &param);
  if (!UCS_PTR_IS_PTR(request)) fetched(operation, UCS_PTR_STATUS(request));  // no callback will come
}

void ucx_engine::fetched(receive_operation* operation, ucs_status_t status) {
  tensor payload = std::move(operation->payload);
  const wire_header header = operation->header;
  ucx_peer* from = std::exchange(operation->peer, nullptr);
  receives_.give_back(operation);
  if (!from) {
    --orphans_;
    return;
  }
  ucx_peer& peer = *from;
  if (!peer.connected() || header.connection != peer.token || peer.failure) return;  // given up meanwhile
  if (status != UCS_OK) {
    return give_up(peer, ucx_error(errc::peer_unreachable, status, "receiving " + to_string(id_of(header))));
  }
  if (!intact(header, payload.raw())) {
    drop(peer, counters_.dropped_corrupt);
    return;
  }
  deliver(peer, id_of(header), std::move(payload));
}

void ucx_engine::deliver(ucx_peer& peer, const message_id& id, tensor&& payload) {
  ++peer.received;
  counters_.messages_received.add();
  counters_.bytes_received.add(payload.bytes());
  if (listener_) listener_->arrived(id, std::move(payload));
  if (peer.stage == peer_stage::closing) advance_goodbye(peer);
}

/// Counts a message that will not be delivered and gives its credit back; false, for its caller to pass on.
bool ucx_engine::drop(ucx_peer& peer, shared_counters::counter& reason) {
  reason.add();
  ++peer.received;
  return_credit(peer);
  if (peer.stage == peer_stage::closing) advance_goodbye(peer);
  return false;
}

void ucx_engine::take_credits(ucx_peer& peer, std::uint32_t credits) {
  peer.send_credits = std::min(peer.their_grant, peer.send_credits + std::min(credits, peer.their_grant));
  pump(peer);
}

void ucx_engine::return_credit(ucx_peer& peer) {
  --peer.unconsumed;
  ++peer.owed;
  owes_credit_ = true;
  if (peer.owed * 2 >= peer.granted) flush_credits_slowly();
}

void ucx_engine::flush_credits_slowly() {
  owes_credit_ = false;
  for (auto& [id, peer] : peers_) {
    if (peer.owed == 0 || !peer.connected()) continue;
    const auto credits = std::exchange(peer.owed, 0);
    if (!peer.their_total) send_control(peer, frame_type::credit, 0, credits);  // who has said bye needs none
  }
}

}  // namespace troupe
