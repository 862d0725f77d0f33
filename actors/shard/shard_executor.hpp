#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "actors/run_listener.hpp"
#include "actors/shard/inbox.hpp"
#include "actors/shard/outbox.hpp"
#include "actors/shard/progress_cell.hpp"
#include "actors/shard/replica_exchange.hpp"
#include "actors/shard/state_keeper.hpp"
#include "actors/shard/step_arrivals.hpp"
#include "actors/stage/stage.hpp"
#include "transport/tensor_port.hpp"

namespace troupe {

/// What a shard knows when its part of a step is done.
struct step_result {
  std::uint64_t step = 0;
  std::vector<float> losses;  ///< of each micro-batch, on the last stage; else empty
  std::vector<stage::parameter_norm> norms;
  shard_timeline timeline;
};

/// Runs one shard's schedule: takes what has arrived, runs the next action as soon as its inputs are there, sends the
/// results. Knows no CAF; a test drives it by hand. One thread uses it, all but `port_listener`'s calls, which only
/// push into the inbox. Messages of a step that has passed, or that came twice, are dropped and counted.
class shard_executor final : public port_listener {
public:
  struct settings {
    shard_id self;
    std::uint32_t epoch = 1, incarnation = 1;
    std::uint64_t first_step = 0;  ///< the open one; later than 0, the shard begins with a state that it is given
    std::vector<action> plan;      ///< this stage's, of one step
    std::uint32_t micro_batches = 1;
    std::uint32_t replicas = 1;
    bool split_optimizer = false;  ///< replicas update their share of the parameters and pass it on
    std::uint32_t credits = 4;     ///< messages a peer may have unconsumed here
    bool keeps_sent = false;       ///< what was sent in the open step can be sent again
    std::optional<shard_id> buddy, ward;
  };
  /// A connection that broke, or stands again.
  struct peer_news {
    shard_id peer;
    std::uint32_t incarnation = 0;
    bool lost = false;
    std::string text;
  };
  /// Wants more data: (how many micro-batches' worth were consumed).
  using ask_loader = std::function<void(std::uint32_t)>;

  /// `arrived` runs on any thread when something waits for `take_arrivals`.
  /// `copy`: of the ward's state, where this shard's own is not the same.
  shard_executor(settings s, stage model, std::unique_ptr<stage> copy, progress_cell& progress,
                 std::function<void()> arrived, ask_loader ask);

  /// Before `introduce`: the port through which tensors leave. Must not outlive this object's use.
  void attach(tensor_port& port) {
    port_ = &port;
    outbox_.attach(port);
  }
  /// The peers this shard exchanges tensors with: its neighbours, who shares a parameter with it, its replicas, its
  /// buddy and its ward.
  std::vector<shard_id> peers() const;

  struct newcomer {
    shard_id peer;
    std::uint32_t incarnation = 1, port = 1;
    bool takes_state = false;  ///< from its buddy
    port_address address;
  };
  /// Connects to those peers whose port is new. Whoever was a peer before is given again what it was sent in the open
  /// step, and a new incarnation the state that is kept for it or that it is to keep. `everyone` holds this shard too.
  status introduce(std::uint32_t epoch, const std::vector<newcomer>& everyone);
  bool has_peer(shard_id id) { return link_to(id) != nullptr; }
  /// Another port in place of the first: no peer is connected until the next `introduce`.
  void attach_again(tensor_port& port);
  /// All peers are connected, and the state of this shard and that of its ward are whole: true once, for its owner to
  /// remember.
  result<bool> joined();

  /// Steps below `end` may run.
  void grant(std::uint64_t end) { granted_ = end; }
  /// Moves arrivals to where their action finds them. Returns the data's failure, if that is among them.
  std::optional<error> take_arrivals();
  /// What became of connections since the last call.
  std::vector<peer_news> take_peer_news() { return std::exchange(news_, {}); }
  bool all_peers_ready() const;
  bool all_peers_closed() const;

  enum class outcome : std::uint8_t { ran, idle, step_done };
  /// Runs the next action if its inputs are there. `idle`: nothing to do until an arrival, a grant or a commit.
  result<outcome> run_next();
  /// After `step_done`: what to report. Valid until the next step begins.
  const step_result& finished_step() const { return result_; }
  /// The committed update of the step that was reported; the next step begins.
  status commit(const update_rule& rule);

  std::uint64_t step() const noexcept { return step_; }
  std::uint64_t dropped_arrivals() const noexcept { return dropped_; }
  /// Most micro-batches whose kept tensors were held at once, and the bytes of them then, since the start.
  std::uint32_t peak_in_flight() const noexcept { return peak_in_flight_; }
  std::size_t peak_kept_bytes() const noexcept { return peak_kept_bytes_; }
  stage& model() noexcept { return stage_; }
  /// What the data loader pushes into.
  const std::shared_ptr<inbox>& mail() const noexcept { return inbox_; }
  /// Tells every peer goodbye, after what was sent; ends in `all_peers_closed`.
  void say_goodbye();

  // port_listener
  void peer_ready(shard_id peer) override;
  result<tensor> destination(const message_id& id, const tensor_spec& spec) override;
  void arrived(const message_id& id, tensor payload) override;
  void peer_failed(shard_id peer, const error& why) override;
  void peer_closed(shard_id peer) override;

private:
  shard_id at_stage(std::size_t s) const {
    return {settings_.self.replica, static_cast<std::uint16_t>(s), settings_.self.shard};
  }
  struct link {
    shard_id id;
    std::uint32_t incarnation = 0, port = 0;
    bool ready = false, closed = false, lost = false;
  };
  std::set<shard_id> find_peers() const;
  link* link_to(shard_id id);
  status meet(link& p, const newcomer& n);
  void note(const arrival& a);
  step_arrivals& arrivals_of(std::uint64_t step) { return arrivals_[step % 2]; }
  step_arrivals::cell* cell_of(const arrival& a);
  void store(arrival& a);
  bool ready(const action& a);
  status run(const action& a);
  status run_forward(std::uint32_t micro_batch);
  status send_gradient(std::uint32_t micro_batch, tensor dx);
  result<outcome> run_action(const action& next);
  /// Once all actions ran: the exchange of shared gradients, that between replicas, the norms.
  result<outcome> finish_step();
  /// True when gradients of parameters that stages share have been combined.
  result<bool> combine_shared();

  settings settings_;
  stage stage_;
  progress_cell& progress_;
  std::shared_ptr<inbox> inbox_;
  ask_loader ask_loader_;
  tensor_port* port_ = nullptr;
  outbox outbox_;
  state_keeper keeper_;
  std::vector<link> links_;
  std::vector<peer_news> news_;
  buffer_pool receive_memory_;
  std::uint64_t step_ = 0, granted_ = 0;
  std::size_t cursor_ = 0;
  bool shared_sent_ = false, combined_ = false, reported_ = false;
  replica_exchange exchange_;
  std::array<step_arrivals, 2> arrivals_;
  std::vector<arrival> drained_;
  std::vector<tensor> awaited_;
  step_result result_;
  action_record last_update_;
  std::uint32_t in_flight_ = 0, peak_in_flight_ = 0;
  std::size_t peak_kept_bytes_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace troupe
