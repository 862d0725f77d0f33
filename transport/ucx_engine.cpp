#include "transport/ucx_engine.hpp"

#include <fmt/format.h>

#include <random>
#include <thread>

namespace troupe {

namespace {

/// The upper half tells the ports of one shard apart, the lower half counts the connections of a port.
std::uint64_t first_token() {
  std::random_device random;
  return (std::uint64_t{random()} | 1) << 32;
}

}  // namespace

port_counters shared_counters::snapshot() const noexcept {
  return {.messages_sent = messages_sent.get(),
          .messages_received = messages_received.get(),
          .bytes_sent = bytes_sent.get(),
          .bytes_received = bytes_received.get(),
          .dropped_malformed = dropped_malformed.get(),
          .dropped_foreign = dropped_foreign.get(),
          .dropped_stale = dropped_stale.get(),
          .dropped_refused = dropped_refused.get(),
          .dropped_corrupt = dropped_corrupt.get(),
          .waits_for_credit = waits_for_credit.get()};
}

ucx_engine::ucx_engine(ucp_context context, ucp_worker worker, const port_options& options, shard_id self,
                       port_listener& listener) noexcept
    : context_(std::move(context)),
      options_(options),
      codec_(options.key),
      self_(self),
      listener_(&listener),
      next_token_(first_token()),
      worker_(std::move(worker)) {}

result<std::unique_ptr<ucx_engine>> ucx_engine::make(const port_options& options, shard_id self,
                                                     port_listener& listener) {
  TROUPE_TRY(auto context, ucp_context::make(options));
  TROUPE_TRY(auto worker, ucp_worker::make(context.get()));
  std::unique_ptr<ucx_engine> engine(new ucx_engine(std::move(context), std::move(worker), options, self, listener));
  TROUPE_CHECK(engine->open());
  return engine;
}

status ucx_engine::open() {
  TROUPE_CHECK(worker_.set_handler(&ucx_engine::on_frame, this));
  TROUPE_TRY(address_, worker_.address());
  TROUPE_TRY(event_fd_, worker_.event_fd());
  return {};
}

ucx_engine::~ucx_engine() {
  listener_ = nullptr;
  for (auto& [id, peer] : peers_) retire_endpoint(peer);
  const auto give_up_at = clock::now() + std::chrono::seconds(5);
  while ((!closing_.empty() || operations() > 0) && clock::now() < give_up_at) {
    if (worker_.progress() == 0) std::this_thread::yield();
    sweep_closing();
  }
}

void ucx_engine::connect(shard_id id, port_address where, std::uint32_t credits) {
  ucx_peer& peer = *entry(id, true);
  if (peer.stage != peer_stage::closed) return;
  const auto now = clock::now();
  peer.begin(std::move(where), credits, ++next_token_, now + options_.handshake_timeout);
  peer.retry_at = now;
  alarm_ = true;
}

void ucx_engine::send(const message_id& id, tensor&& payload) {
  assert(payload && "an empty message is a tensor of no elements");
  ucx_peer* peer = find(id.destination);
  if (!peer || peer->bye_sent || peer->failure) return counters_.dropped_foreign.add();
  counters_.messages_sent.add();
  counters_.bytes_sent.add(payload.bytes());
  const bool may_leave = peer->connected() && peer->waiting.empty() && peer->send_credits > 0;
  if (may_leave) return transmit(*peer, id, std::move(payload));
  if (peer->connected()) counters_.waits_for_credit.add();
  peer->waiting.push({id, std::move(payload)});
}

void ucx_engine::consumed(const message_id& id) {
  ucx_peer* peer = find(id.source);
  // A message of an earlier connection may be consumed late; it must not widen this one.
  if (peer && peer->unconsumed > 0) return_credit(*peer);
}

void ucx_engine::disconnect(shard_id id) {
  ucx_peer* peer = find(id);
  if (!peer) return;
  if (peer->stage == peer_stage::asking) {
    peer->stage = peer_stage::finishing;
    peer->deadline = clock::now();  // nobody is there to say goodbye to
    alarm_ = true;
  } else if (peer->stage == peer_stage::open) {
    begin_goodbye(*peer);
  }
}

void ucx_engine::abandon(shard_id id, const error& why) {
  if (ucx_peer* peer = find(id)) give_up(*peer, why);
}

void ucx_engine::set_epoch(std::uint32_t epoch) noexcept {
  auto current = epoch_.load(std::memory_order_relaxed);
  while (current < epoch && !epoch_.compare_exchange_weak(current, epoch, std::memory_order_relaxed)) {
  }
}

bool ucx_engine::pending() const noexcept {
  if (!closing_.empty() || operations() > 0) return true;
  for (const auto& [id, peer] : peers_) {
    if (peer.stage != peer_stage::closed && peer.stage != peer_stage::open) return true;
  }
  return false;
}

bool ucx_engine::any_peer() const noexcept {
  for (const auto& [id, peer] : peers_) {
    if (peer.stage != peer_stage::closed) return true;
  }
  return false;
}

/// What is remembered of a peer; null, or new if so wanted, when nothing is.
ucx_peer* ucx_engine::entry(shard_id id, bool make) {
  if (last_entry_ && last_entry_->id == id) return last_entry_;
  auto found = peers_.find(id);
  if (found == peers_.end()) {
    if (!make) return nullptr;
    found = peers_.emplace(id, ucx_peer{}).first;
    found->second.id = id;
  }
  return last_entry_ = &found->second;
}

/// The peer, if there is a connection to it or one is being made.
ucx_peer* ucx_engine::find(shard_id id) noexcept {
  ucx_peer* peer = entry(id, false);
  return peer && peer->stage != peer_stage::closed ? peer : nullptr;
}

}  // namespace troupe
