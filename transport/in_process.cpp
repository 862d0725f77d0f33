#include "transport/in_process.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "transport/fifo.hpp"

namespace troupe {

namespace {

struct parcel {
  message_id id;
  tensor payload;
};

/// What a listener is told, in order. (A variant of these draws a false warning from GCC 12.)
struct notice {
  enum class kind : std::uint8_t { arrived, ready, closed, failed } what = kind::arrived;
  parcel message;  ///< of `arrived`
  error why;       ///< of `failed`
};

enum class link_stage { closed, asked, open, closing };

/// One port's end of its connection to one peer. Kept over reconnections, so that notices stay in order.
struct link_end {
  link_stage stage = link_stage::closed;
  std::uint32_t granted = 0;       ///< how many messages the peer may have unconsumed here
  std::uint32_t send_credits = 0;  ///< how many more messages the peer takes
  fifo<parcel> waiting;            ///< sends without credit, or from before the handshake was done
  fifo<notice> inbox;              ///< for this side's listener
  bool draining = false;           ///< a thread is calling the listener; the others only append to `inbox`
  std::thread::id drainer;
};

struct port_core {
  port_core(shard_id id, port_listener& owner) : self(id), listener(&owner) {}
  const shard_id self;
  port_listener* listener;  ///< null once the port is gone
  std::uint32_t epoch = 0;
  port_counters counters;
  std::map<shard_id, link_end> links;
};

void tell(port_listener& listener, shard_id peer, notice&& what) {
  switch (what.what) {
    case notice::kind::arrived:
      return listener.arrived(what.message.id, std::move(what.message.payload));
    case notice::kind::ready:
      return listener.peer_ready(peer);
    case notice::kind::closed:
      return listener.peer_closed(peer);
    case notice::kind::failed:
      return listener.peer_failed(peer, what.why);
  }
}

void fail(link_end& end, const error& why) {
  if (end.stage == link_stage::closed) return;
  end.stage = link_stage::closed;
  end.waiting.clear();
  end.inbox.push({notice::kind::failed, {}, why});
}

void say_goodbye(link_end& end) {
  end.stage = link_stage::closed;
  end.inbox.push({notice::kind::closed, {}, {}});
}

/// The next waiting message passes from `from` to `to`'s inbox, if it is not stale there.
void hand_over(link_end& from, port_core& to, link_end& to_end) {
  parcel p = from.waiting.pop();
  if (p.id.epoch < to.epoch) {
    ++to.counters.dropped_stale;
    return;
  }
  --from.send_credits;
  ++to.counters.messages_received;
  to.counters.bytes_received += p.payload.bytes();
  to_end.inbox.push({notice::kind::arrived, std::move(p), {}});
}

/// Both ends of one connection; `theirs` is null while the peer has no port.
struct link {
  link_end& ours;
  std::shared_ptr<port_core> peer;
  link_end* theirs = nullptr;

  bool connected() const noexcept { return ours.stage == link_stage::open || ours.stage == link_stage::closing; }
};

/// Moves what has credit, from `from` to `to`.
void move_waiting(link_end& from, port_core& to, link_end& to_end) {
  while (!from.waiting.empty() && from.send_credits > 0) hand_over(from, to, to_end);
}

void close_if_drained(link& l) {
  if (l.ours.stage != link_stage::closing && l.theirs->stage != link_stage::closing) return;
  if (!l.ours.waiting.empty() || !l.theirs->waiting.empty()) return;
  say_goodbye(l.ours);
  say_goodbye(*l.theirs);
}

}  // namespace

/// One lock for all ports: it is held for some tens of nanoseconds a message and never while a listener is called.
struct in_process_exchange::state {
  class port;

  std::mutex mutex;
  std::condition_variable left_listener;  ///< only a port's destructor waits for it
  std::map<shard_id, std::shared_ptr<port_core>> ports;

  link find(port_core& core, shard_id peer) {
    link found{core.links[peer], nullptr, nullptr};
    if (const auto entry = ports.find(peer); entry != ports.end()) {
      found.peer = entry->second;
      found.theirs = &found.peer->links[core.self];
    }
    return found;
  }

  /// Tells `core`'s listener what its inbox for `peer` holds, with the lock released, unless another call is at it:
  /// then that one goes on. So a listener may call its port from within.
  void drain(port_core& core, shard_id peer) {
    std::unique_lock lock(mutex);
    link_end& end = core.links[peer];
    if (end.draining) return;
    end.draining = true;
    end.drainer = std::this_thread::get_id();
    while (core.listener && !end.inbox.empty()) {
      notice what = end.inbox.pop();
      port_listener& listener = *core.listener;
      lock.unlock();
      tell(listener, peer, std::move(what));
      lock.lock();
    }
    end.draining = false;
    if (!core.listener) left_listener.notify_all();
  }
};

class in_process_exchange::state::port final : public tensor_port {
public:
  port(std::shared_ptr<state> exchange, std::shared_ptr<port_core> core)
      : exchange_(std::move(exchange)), core_(std::move(core)) {}
  ~port() override;

  shard_id self() const noexcept override { return core_->self; }
  const port_address& address() const noexcept override { return address_; }
  void connect(shard_id peer, port_address where, std::uint32_t credits) override;
  void send(const message_id& id, tensor payload) override;
  void consumed(const message_id& id) override;
  void disconnect(shard_id peer) override;
  void abandon(shard_id peer, const error& why) override;
  void set_epoch(std::uint32_t epoch) override;
  port_counters counters() const override;
  std::string route(shard_id) const override { return "in process"; }

private:
  /// Runs `change` on the connection to `peer` under the lock, then tells both listeners what came of it.
  template <class Change>
  void with_link(shard_id peer, Change change) {
    std::shared_ptr<port_core> other;
    {
      std::lock_guard lock(exchange_->mutex);
      link l = exchange_->find(*core_, peer);
      change(l);
      other = std::move(l.peer);
    }
    // A copy: the listener may destroy this port from within.
    const auto exchange = exchange_;
    const auto core = core_;
    exchange->drain(*core, peer);
    if (other) exchange->drain(*other, core->self);
  }

  const std::shared_ptr<state> exchange_;
  const std::shared_ptr<port_core> core_;
  const port_address address_;  ///< empty: the exchange finds ports by their shard
};

void in_process_exchange::state::port::connect(shard_id peer, port_address, std::uint32_t credits) {
  with_link(peer, [&](link& l) {
    if (l.ours.stage != link_stage::closed) return;
    l.ours.stage = link_stage::asked;
    l.ours.granted = credits;
    if (!l.theirs || l.theirs->stage != link_stage::asked) return;
    l.ours.send_credits = l.theirs->granted;
    l.theirs->send_credits = l.ours.granted;
    for (link_end* end : {&l.ours, l.theirs}) {
      end->stage = link_stage::open;
      end->inbox.push({notice::kind::ready, {}, {}});
    }
    move_waiting(l.ours, *l.peer, *l.theirs);
    move_waiting(*l.theirs, *core_, l.ours);
  });
}

void in_process_exchange::state::port::send(const message_id& id, tensor payload) {
  with_link(id.destination, [&](link& l) {
    if (l.ours.stage == link_stage::closed) {
      ++core_->counters.dropped_foreign;
      return;
    }
    ++core_->counters.messages_sent;
    core_->counters.bytes_sent += payload.bytes();
    l.ours.waiting.push({id, std::move(payload)});
    if (!l.connected()) return;
    if (l.ours.send_credits == 0) ++core_->counters.waits_for_credit;
    move_waiting(l.ours, *l.peer, *l.theirs);
  });
}

void in_process_exchange::state::port::consumed(const message_id& id) {
  with_link(id.source, [&](link& l) {
    if (!l.connected()) return;
    // Bounded: a message of an earlier connection that is consumed late must not widen this one.
    l.theirs->send_credits = std::min(l.theirs->send_credits + 1, l.ours.granted);
    move_waiting(*l.theirs, *core_, l.ours);
    close_if_drained(l);
  });
}

void in_process_exchange::state::port::disconnect(shard_id peer) {
  with_link(peer, [&](link& l) {
    if (l.ours.stage == link_stage::asked) say_goodbye(l.ours);
    if (!l.connected()) return;
    l.ours.stage = link_stage::closing;
    close_if_drained(l);
  });
}

void in_process_exchange::state::port::abandon(shard_id peer, const error& why) {
  with_link(peer, [&](link& l) {
    if (l.connected()) {
      fail(*l.theirs, {errc::peer_unreachable, fmt::format("peer {} gave this connection up", to_string(core_->self))});
    }
    fail(l.ours, {why.code, fmt::format("peer {}: {}", to_string(peer), why.where), why.native});
  });
}

void in_process_exchange::state::port::set_epoch(std::uint32_t epoch) {
  std::lock_guard lock(exchange_->mutex);
  core_->epoch = std::max(core_->epoch, epoch);
}

port_counters in_process_exchange::state::port::counters() const {
  std::lock_guard lock(exchange_->mutex);
  return core_->counters;
}

in_process_exchange::state::port::~port() {
  std::vector<std::shared_ptr<port_core>> peers;
  {
    std::unique_lock lock(exchange_->mutex);
    core_->listener = nullptr;
    exchange_->ports.erase(core_->self);
    for (auto& [id, end] : core_->links) {
      if (end.stage == link_stage::closed) continue;
      end.stage = link_stage::closed;
      const auto peer = exchange_->ports.find(id);
      if (peer == exchange_->ports.end()) continue;
      link_end& theirs = peer->second->links[core_->self];
      if (theirs.stage == link_stage::asked) continue;
      fail(theirs, {errc::peer_unreachable, fmt::format("peer {} closed its port", to_string(core_->self))});
      peers.push_back(peer->second);
    }
    // Whoever is inside our listener must leave it before its owner may go, except for this thread itself.
    exchange_->left_listener.wait(lock, [&] {
      return std::none_of(core_->links.begin(), core_->links.end(), [](const auto& entry) {
        return entry.second.draining && entry.second.drainer != std::this_thread::get_id();
      });
    });
  }
  for (const auto& peer : peers) exchange_->drain(*peer, core_->self);
}

in_process_exchange::in_process_exchange() : state_(std::make_shared<state>()) {}
in_process_exchange::~in_process_exchange() = default;

std::unique_ptr<tensor_port> in_process_exchange::make_port(shard_id self, port_listener& listener) {
  auto core = std::make_shared<port_core>(self, listener);
  {
    std::lock_guard lock(state_->mutex);
    const bool added = state_->ports.emplace(self, core).second;
    assert(added && "one port a shard");
    static_cast<void>(added);
  }
  return std::make_unique<state::port>(state_, std::move(core));
}

}  // namespace troupe
