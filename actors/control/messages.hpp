#pragma once

#include <caf/all.hpp>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "transport/tensor_message.hpp"

// The control plane's messages: small, integers and text only. No floating-point number may enter one: CAF 0.17 never
// returns from serialising an infinity and turns NaN into -1, just when a diverging loss needs the control plane. Bit
// patterns travel instead; `float_free` below refuses the types at compile time. Tensors never enter a message at all.

namespace troupe {

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, shard_id& x) {
  return f(caf::meta::type_name("shard_id"), x.replica, x.stage, x.shard);
}

// --- worker process <-> supervisor ----------------------------------------------------------------------------------

struct worker_assignment {  ///< supervisor to worker: what to host
  std::uint32_t epoch = 0, incarnation = 0;
  std::uint64_t first_step = 0;      ///< that is open: where the shards begin
  std::string config;                ///< resolved TOML
  std::vector<std::uint64_t> split;  ///< layers per stage
  std::uint32_t stages = 1, replicas = 1, tensor_shards = 1;
  std::vector<shard_id> shards;
};
struct ping {
  std::uint64_t number = 0;
};  ///< supervisor to worker: are you there?
struct pong {
  std::uint32_t worker = 0;
  std::uint64_t number = 0;
};
struct end_worker {};  ///< supervisor to worker: nothing left to do

using worker_actor =
    caf::typed_actor<caf::reacts_to<worker_assignment>, caf::reacts_to<ping>, caf::reacts_to<end_worker>>;

struct worker_joined {  ///< worker to supervisor: a process is there
  std::string key;      ///< the run's, hexadecimal
  std::uint32_t worker = 0;
  std::int32_t pid = 0;
  worker_actor who;
};

// --- shard <-> supervisor -------------------------------------------------------------------------------------------

struct peer_address {
  shard_id peer;
  std::uint32_t incarnation = 0;
  std::uint32_t port = 0;    ///< counts the ports of this incarnation
  bool takes_state = false;  ///< it begins with what its buddy holds for it
  std::vector<std::uint8_t> address;
};
/// Everyone who is there. A shard connects to the peers that have a port it does not know yet.
struct connect_peers {
  std::uint32_t epoch = 0;
  std::vector<peer_address> peers;
};
/// These shards are lost. Who had one as a peer opens a new port: a process that was killed inside a write to shared
/// memory can leave the old one deaf. Everyone answers.
struct peers_lost {
  std::uint32_t epoch = 0;
  std::vector<shard_id> shards;
};
struct step_grant {
  std::uint64_t end = 0;
};                    ///< steps below `end` may run
struct step_commit {  ///< the step can no longer be lost: apply its update
  std::uint64_t step = 0;
  std::uint32_t learning_rate_bits = 0, gradient_scale_bits = 0;
};
struct stop_shard {
  bool drain = true;
};                           ///< say goodbye to all peers, then quit; or quit at once
struct arrivals_waiting {};  ///< local: the inbox is no longer empty
struct run_next_action {};   ///< local, to itself

using shard_actor =
    caf::typed_actor<caf::reacts_to<connect_peers>, caf::reacts_to<peers_lost>, caf::reacts_to<step_grant>,
                     caf::reacts_to<step_commit>, caf::reacts_to<stop_shard>, caf::reacts_to<arrivals_waiting>,
                     caf::reacts_to<run_next_action>>;

struct shard_ready {
  shard_id shard;
  std::uint32_t incarnation = 0;
  std::vector<std::uint8_t> address;  ///< of its tensor port
  shard_actor who;
};
struct loss_noted {  ///< the answer to `peers_lost`
  shard_id shard;
  std::uint32_t incarnation = 0, epoch = 0, port = 0;
  std::vector<std::uint8_t> address;
};
struct shard_connected {
  shard_id shard;
  std::uint32_t incarnation = 0;
};
/// A shard's connection to a peer broke, or is whole again. A report, never a judgement.
struct peer_trouble {
  shard_id shard, peer;
  std::uint32_t incarnation = 0, peer_incarnation = 0;
  bool lost = true;
  std::string text;
};
struct timed_action {
  std::uint8_t what = 0;
  std::uint32_t micro_batch = 0;
  std::uint16_t chunk = 0;
  std::int64_t start_ns = 0, end_ns = 0;
};
struct parameter_norm_bits {
  std::uint64_t parameter = 0, squared_bits = 0;
};
struct step_done {
  shard_id shard;
  std::uint32_t incarnation = 0;
  std::uint64_t step = 0;
  std::vector<std::uint32_t> loss_bits;    ///< f32, of each micro-batch; last stage only
  std::vector<parameter_norm_bits> norms;  ///< f64
  std::vector<timed_action> actions;
  timed_action update;  ///< the update before this step
};
struct shard_failed {
  shard_id shard;
  std::uint32_t incarnation = 0;
  std::uint8_t code = 0;  ///< errc
  std::string text;
};
struct shard_stopped {
  shard_id shard;
  std::uint32_t incarnation = 0;
  std::uint64_t peak_in_flight = 0, peak_kept_bytes = 0, predicted_kept_bytes = 0;  ///< the last: of one micro-batch
};

// --- node agent <-> supervisor --------------------------------------------------------------------------------------

struct worker_exited {  ///< agent to supervisor, from the process's pidfd
  std::uint32_t worker = 0;
  std::int32_t pid = 0;
  std::int32_t signal = 0;  ///< that ended it, or 0
  std::int32_t code = 0;    ///< its exit code where no signal did
};
struct start_worker {
  std::uint32_t worker = 0;
};
struct start_failed {
  std::uint32_t worker = 0;
  std::string text;
};
struct signal_workers {
  std::int32_t signal = 0;
};  ///< to all that still run
struct signal_worker {
  std::uint32_t worker = 0;
  std::int32_t signal = 0;
};

using node_agent_actor = caf::typed_actor<caf::reacts_to<start_worker>, caf::reacts_to<signal_workers>,
                                          caf::reacts_to<signal_worker>, caf::reacts_to<worker_exited>>;

// --- to the supervisor ----------------------------------------------------------------------------------------------

struct begin_run {};   ///< local: everything is in place
struct launch_due {};  ///< local: a back-off is over
struct interrupt_run {
  std::int32_t signal = 0;
};                          ///< local: Ctrl-C, SIGTERM
struct supervisor_tick {};  ///< local: time to look at deadlines

using supervisor_actor =
    caf::typed_actor<caf::reacts_to<worker_joined>, caf::reacts_to<pong>, caf::reacts_to<shard_ready>,
                     caf::reacts_to<loss_noted>, caf::reacts_to<shard_connected>, caf::reacts_to<step_done>,
                     caf::reacts_to<shard_failed>, caf::reacts_to<peer_trouble>, caf::reacts_to<shard_stopped>,
                     caf::reacts_to<worker_exited>, caf::reacts_to<start_failed>, caf::reacts_to<begin_run>,
                     caf::reacts_to<launch_due>, caf::reacts_to<interrupt_run>, caf::reacts_to<supervisor_tick>>;

// --- data loader ----------------------------------------------------------------------------------------------------

struct load_more {
  std::uint32_t micro_batches = 0;
};
using loader_actor = caf::typed_actor<caf::reacts_to<load_more>>;

// --- inspection -----------------------------------------------------------------------------------------------------

#define TROUPE_MESSAGE(type, ...)                                     \
  template <class Inspector>                                          \
  typename Inspector::result_type inspect(Inspector& f, type& x) {    \
    (void)x;                                                          \
    return f(caf::meta::type_name(#type) __VA_OPT__(, ) __VA_ARGS__); \
  }
TROUPE_MESSAGE(worker_assignment, x.epoch, x.incarnation, x.first_step, x.config, x.split, x.stages, x.replicas,
               x.tensor_shards, x.shards)
TROUPE_MESSAGE(ping, x.number)
TROUPE_MESSAGE(pong, x.worker, x.number)
TROUPE_MESSAGE(end_worker)
TROUPE_MESSAGE(worker_joined, x.key, x.worker, x.pid, x.who)
TROUPE_MESSAGE(peer_address, x.peer, x.incarnation, x.port, x.takes_state, x.address)
TROUPE_MESSAGE(connect_peers, x.epoch, x.peers)
TROUPE_MESSAGE(peers_lost, x.epoch, x.shards)
TROUPE_MESSAGE(loss_noted, x.shard, x.incarnation, x.epoch, x.port, x.address)
TROUPE_MESSAGE(step_grant, x.end)
TROUPE_MESSAGE(step_commit, x.step, x.learning_rate_bits, x.gradient_scale_bits)
TROUPE_MESSAGE(stop_shard, x.drain)
TROUPE_MESSAGE(arrivals_waiting)
TROUPE_MESSAGE(run_next_action)
TROUPE_MESSAGE(shard_ready, x.shard, x.incarnation, x.address, x.who)
TROUPE_MESSAGE(shard_connected, x.shard, x.incarnation)
TROUPE_MESSAGE(peer_trouble, x.shard, x.peer, x.incarnation, x.peer_incarnation, x.lost, x.text)
TROUPE_MESSAGE(timed_action, x.what, x.micro_batch, x.chunk, x.start_ns, x.end_ns)
TROUPE_MESSAGE(parameter_norm_bits, x.parameter, x.squared_bits)
TROUPE_MESSAGE(step_done, x.shard, x.incarnation, x.step, x.loss_bits, x.norms, x.actions, x.update)
TROUPE_MESSAGE(shard_failed, x.shard, x.incarnation, x.code, x.text)
TROUPE_MESSAGE(shard_stopped, x.shard, x.incarnation, x.peak_in_flight, x.peak_kept_bytes, x.predicted_kept_bytes)
TROUPE_MESSAGE(worker_exited, x.worker, x.pid, x.signal, x.code)
TROUPE_MESSAGE(start_worker, x.worker)
TROUPE_MESSAGE(start_failed, x.worker, x.text)
TROUPE_MESSAGE(signal_workers, x.signal)
TROUPE_MESSAGE(signal_worker, x.worker, x.signal)
TROUPE_MESSAGE(begin_run)
TROUPE_MESSAGE(launch_due)
TROUPE_MESSAGE(interrupt_run, x.signal)
TROUPE_MESSAGE(supervisor_tick)
TROUPE_MESSAGE(load_more, x.micro_batches)
#undef TROUPE_MESSAGE

// --- the check ------------------------------------------------------------------------------------------------------

template <class T>
struct float_free;

/// An inspector that cannot be called with a floating-point field.
struct float_check {
  using result_type = int;
  template <class... Fields>
  requires(float_free<std::remove_cvref_t<Fields>>::value&&...) int operator()(Fields&&...) { return 0; }
};

template <class T>
struct float_free {
  static constexpr bool value = !std::is_floating_point_v<T>;
};
template <class T>
struct float_free<std::vector<T>> : float_free<T> {};
template <class T>
requires(std::is_class_v<T>&& requires(float_check f, T x) { inspect(f, x); }) struct float_free<T> {
  static constexpr bool value = true;  // its inspect compiled: every field of it was checked
};

}  // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe, first_custom_type_id)
CAF_ADD_TYPE_ID(troupe, (troupe::shard_id))
CAF_ADD_TYPE_ID(troupe, (troupe::worker_assignment))
CAF_ADD_TYPE_ID(troupe, (troupe::ping))
CAF_ADD_TYPE_ID(troupe, (troupe::pong))
CAF_ADD_TYPE_ID(troupe, (troupe::end_worker))
CAF_ADD_TYPE_ID(troupe, (troupe::worker_actor))
CAF_ADD_TYPE_ID(troupe, (troupe::worker_joined))
CAF_ADD_TYPE_ID(troupe, (troupe::peer_address))
CAF_ADD_TYPE_ID(troupe, (troupe::connect_peers))
CAF_ADD_TYPE_ID(troupe, (troupe::peers_lost))
CAF_ADD_TYPE_ID(troupe, (troupe::loss_noted))
CAF_ADD_TYPE_ID(troupe, (troupe::step_grant))
CAF_ADD_TYPE_ID(troupe, (troupe::step_commit))
CAF_ADD_TYPE_ID(troupe, (troupe::stop_shard))
CAF_ADD_TYPE_ID(troupe, (troupe::arrivals_waiting))
CAF_ADD_TYPE_ID(troupe, (troupe::run_next_action))
CAF_ADD_TYPE_ID(troupe, (troupe::shard_actor))
CAF_ADD_TYPE_ID(troupe, (troupe::shard_ready))
CAF_ADD_TYPE_ID(troupe, (troupe::shard_connected))
CAF_ADD_TYPE_ID(troupe, (troupe::peer_trouble))
CAF_ADD_TYPE_ID(troupe, (troupe::timed_action))
CAF_ADD_TYPE_ID(troupe, (troupe::parameter_norm_bits))
CAF_ADD_TYPE_ID(troupe, (troupe::step_done))
CAF_ADD_TYPE_ID(troupe, (troupe::shard_failed))
CAF_ADD_TYPE_ID(troupe, (troupe::shard_stopped))
CAF_ADD_TYPE_ID(troupe, (troupe::worker_exited))
CAF_ADD_TYPE_ID(troupe, (troupe::start_worker))
CAF_ADD_TYPE_ID(troupe, (troupe::start_failed))
CAF_ADD_TYPE_ID(troupe, (troupe::signal_workers))
CAF_ADD_TYPE_ID(troupe, (troupe::signal_worker))
CAF_ADD_TYPE_ID(troupe, (troupe::begin_run))
CAF_ADD_TYPE_ID(troupe, (troupe::launch_due))
CAF_ADD_TYPE_ID(troupe, (troupe::interrupt_run))
CAF_ADD_TYPE_ID(troupe, (troupe::supervisor_tick))
CAF_ADD_TYPE_ID(troupe, (troupe::load_more))
CAF_END_TYPE_ID_BLOCK(troupe)
