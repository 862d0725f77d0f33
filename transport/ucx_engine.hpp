#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "transport/object_pool.hpp"
#include "transport/port_options.hpp"
#include "transport/tensor_port.hpp"
#include "transport/ucp_context.hpp"
#include "transport/ucp_endpoint.hpp"
#include "transport/ucp_worker.hpp"
#include "transport/ucx_peer.hpp"
#include "transport/wire_header.hpp"

namespace troupe {

/// Counters with one writer and any readers.
struct shared_counters {
  class counter {
  public:
    void add(std::uint64_t n = 1) noexcept {
      value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
    std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<std::uint64_t> value_{0};
  };
  counter messages_sent, messages_received, bytes_sent, bytes_received;
  counter dropped_malformed, dropped_foreign, dropped_stale, dropped_refused, dropped_corrupt, waits_for_credit;
  port_counters snapshot() const noexcept;
};

/// The data plane's protocol over one UCX worker: handshake, tensors with credits, goodbye, and the end of a connection
/// for whichever cause comes first. Knows nothing of threads: all calls but `counters` and `set_epoch` are for one
/// thread. It calls its listener from `progress` and `settle`; the listener may call back from within.
class ucx_engine {
public:
  using clock = ucx_peer::clock;

  static result<std::unique_ptr<ucx_engine>> make(const port_options& options, shard_id self, port_listener& listener);
  ~ucx_engine();  ///< Force-closes what is open; returns when UCX has let go of every tensor. Tells nobody.
  ucx_engine(const ucx_engine&) = delete;
  ucx_engine& operator=(const ucx_engine&) = delete;

  // As in `tensor_port`.
  void connect(shard_id peer, port_address where, std::uint32_t credits);
  void send(const message_id& id, tensor&& payload);
  void consumed(const message_id& id);
  void disconnect(shard_id peer);
  void abandon(shard_id peer, const error& why);
  void set_epoch(std::uint32_t epoch) noexcept;
  port_counters counters() const noexcept { return counters_.snapshot(); }

  const port_address& address() const noexcept { return address_; }
  shard_id self() const noexcept { return self_; }
  int event_fd() const noexcept { return event_fd_; }

  /// Lets UCX work; returns how many events it handled.
  unsigned progress() { return worker_.progress(); }
  /// Does what may not be done within UCX's callbacks: ends failed connections, closes endpoints. After every
  /// `progress` and every call from outside.
  void settle() {
    if (alarm_ || unsettled_ || !closing_.empty()) settle_slowly();
  }
  /// Gives back the credits that no tensor has carried along yet.
  void flush_credits() {
    if (owes_credit_) flush_credits_slowly();
  }
  bool arm() noexcept { return worker_.arm(); }
  /// Retries and gives up handshakes, gives up goodbyes; about every `deadline_period` while `pending()`.
  void check_deadlines(clock::time_point now);
  /// Something awaits UCX or a deadline.
  bool pending() const noexcept;
  bool any_peer() const noexcept;
  /// The listener is going: it is not called any more.
  void mute() noexcept { listener_ = nullptr; }

private:
  struct send_operation {
    wire_image header;  // UCX reads it until the operation is complete
    tensor payload;
    ucx_engine* engine = nullptr;
    ucp_endpoint* endpoint = nullptr;  // null when not in use, or orphaned
  };
  struct receive_operation {
    wire_header header;
    tensor payload;
    ucx_engine* engine = nullptr;
    ucx_peer* peer = nullptr;  // null when not in use, or orphaned
  };

  ucx_engine(ucp_context context, ucp_worker worker, const port_options& options, shard_id self,
             port_listener& listener) noexcept;
  status open();

  // Frames out.
  wire_header frame_to(const ucx_peer& peer, frame_type type) const noexcept;
  void send_control(ucx_peer& peer, frame_type type, std::uint64_t number = 0, std::uint32_t credits = 0);
  void transmit(ucx_peer& peer, const message_id& id, tensor&& payload);
  void post(ucx_peer& peer, send_operation* operation, tensor&& payload, unsigned flags);
  void complete(send_operation* operation, ucs_status_t status) noexcept;
  void pump(ucx_peer& peer);

  // Frames in.
  static ucs_status_t on_frame(void* engine, const void* header, std::size_t header_length, void* data,
                               std::size_t length, const ucp_am_recv_param_t* param);
  /// False when the payload, if there is one, is not wanted.
  bool on_frame(std::span<const std::byte> bytes, void* data, std::size_t length, bool rendezvous);
  void on_hello(const wire_header& header);
  void on_control(ucx_peer& peer, const wire_header& header);
  bool on_tensor(ucx_peer& peer, const wire_header& header, void* data, bool rendezvous);
  /// Why a tensor may not come in, before anything is allocated for it; null when it may.
  shared_counters::counter* objection_to(const ucx_peer& peer, const wire_header& header) noexcept;
  bool intact(const wire_header& header, const void* payload) const noexcept;
  void fetch(ucx_peer& peer, const wire_header& header, tensor&& room, void* descriptor);
  void fetched(receive_operation* operation, ucs_status_t status);
  void deliver(ucx_peer& peer, const message_id& id, tensor&& payload);
  bool drop(ucx_peer& peer, shared_counters::counter& reason);

  // Credits.
  void take_credits(ucx_peer& peer, std::uint32_t credits);
  void return_credit(ucx_peer& peer);
  void flush_credits_slowly();

  // Connections.
  ucx_peer* entry(shard_id peer, bool make);
  ucx_peer* find(shard_id peer) noexcept;
  void ask(ucx_peer& peer, clock::time_point now);
  void greet(ucx_peer& peer);
  void say_hello(ucx_peer& peer);

  void become_ready(ucx_peer& peer);
  void begin_goodbye(ucx_peer& peer);
  void advance_goodbye(ucx_peer& peer);
  void give_up(ucx_peer& peer, error why);
  void settle_slowly();
  void settle(ucx_peer& peer, clock::time_point now);
  void end_with_failure(ucx_peer& peer);
  void end_with_goodbye(ucx_peer& peer);
  void retire_endpoint(ucx_peer& peer);
  void orphan_operations(ucx_peer& peer);
  void sweep_closing();
  std::size_t operations() const noexcept { return sends_.in_use() + receives_.in_use() - orphans_; }

  ucp_context context_;
  const port_options options_;
  const header_codec codec_;
  const shard_id self_;
  port_listener* listener_;
  port_address address_;
  int event_fd_ = -1;
  std::atomic<std::uint32_t> epoch_{0};
  std::uint64_t next_token_;

  std::map<shard_id, ucx_peer> peers_;
  ucx_peer* last_entry_ = nullptr;  ///< found last; peers are never erased
  std::vector<std::unique_ptr<ucp_endpoint>> closing_;
  object_pool<send_operation> sends_;
  object_pool<receive_operation> receives_;
  std::size_t orphans_ = 0;
  wire_header incoming_;  ///< of the frame that is being handled
  shared_counters counters_;
  bool alarm_ = false;        ///< a connection has failed, begins, or finishes
  bool owes_credit_ = false;  ///< some peer's `owed` is not 0
  bool unsettled_ = false;    ///< some peer's endpoint is being flushed: to greet over it, or after the goodbye
  ucp_worker worker_;         ///< last, so that it goes before what its operations point to
};

}  // namespace troupe
