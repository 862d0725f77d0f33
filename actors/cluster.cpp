#include "actors/cluster.hpp"

#include <fmt/format.h>

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <future>

#include "actors/supervisor/supervisor.hpp"
#include "actors/worker/worker.hpp"

namespace troupe {

namespace {

// Never parsed from files: CAF would read caf-application.ini from the working directory.
struct actor_config : caf::actor_system_config {
  explicit actor_config(bool network) {
    add_message_types<caf::id_block::troupe>();
    set("scheduler.policy", caf::atom("sharing"));  // idle costs nothing, a remote request a quarter
    set("scheduler.max-threads", std::size_t{2});
    if (network) load<caf::io::middleman>();
  }
};

class caf_head final : public cluster_head {
public:
  caf_head(cluster_settings settings, run_listener& listener, std::span<progress_cell> cells,
           process_launcher* launcher, shard_factory factory)
      : settings_(std::move(settings)),
        cells_(cells),
        factory_(std::move(factory)),
        config_(settings_.processes),
        system_(config_) {
    supervisor_ =
        system_.spawn(supervisor, &settings_, &listener, cells, launcher,
                      std::function<void(run_outcome)>([this](run_outcome o) { ended_.set_value(std::move(o)); }));
  }
  ~caf_head() override {
    if (supervisor_) caf::anon_send_exit(supervisor_, caf::exit_reason::user_shutdown);
    destroy(supervisor_);
  }

  status publish() {
    if (!settings_.processes) return {};
    const auto bound = system_.middleman().publish(supervisor_, settings_.port, settings_.address.c_str());
    if (!bound)
      return invalid(
          fmt::format("cannot listen on {}:{}: the port is in use or not allowed; choose another one with "
                      "transport.control_port, or 0 for any free one",
                      settings_.address, settings_.port));
    port_ = *bound;
    return {};
  }
  std::uint16_t port() const override { return port_; }
  void begin() override {
    caf::anon_send(supervisor_, begin_run{});  // first: a worker's word must find the run begun
    if (!settings_.processes) system_.spawn(worker, supervisor_, 0U, settings_.run_key, cells_, factory_);
  }
  void interrupt(int signal) override { caf::anon_send(supervisor_, interrupt_run{signal}); }
  run_outcome wait() override {
    auto outcome = ended_.get_future().get();
    if (settings_.processes) system_.middleman().unpublish(supervisor_, port_);
    destroy(supervisor_);
    system_.await_all_actors_done();
    return outcome;
  }

private:
  cluster_settings settings_;
  std::span<progress_cell> cells_;
  shard_factory factory_;
  std::promise<run_outcome> ended_;
  actor_config config_;
  caf::actor_system system_;
  supervisor_actor supervisor_;
  std::uint16_t port_ = 0;
};

}  // namespace

result<std::unique_ptr<cluster_head>> cluster_head::start(cluster_settings settings, run_listener& listener,
                                                          std::span<progress_cell> cells, process_launcher* launcher,
                                                          shard_factory factory) {
  if (settings.split.size() != settings.extents.stages || settings.plan.stages != settings.extents.stages ||
      cells.size() != settings.extents.size())
    return invalid(fmt::format(
        "a mesh of {} stages and {} shards was given a split of {}, a schedule of {} and {} cells",
        settings.extents.stages, settings.extents.size(), settings.split.size(), settings.plan.stages, cells.size()));
  auto head = std::make_unique<caf_head>(std::move(settings), listener, cells, launcher, std::move(factory));
  TROUPE_CHECK(head->publish());
  return std::unique_ptr<cluster_head>(std::move(head));
}

int run_cluster_worker(worker_settings settings) {
  actor_config config(true);
  caf::actor_system system(config);
  auto head = system.middleman().remote_actor<supervisor_actor>(settings.head_address, settings.head_port);
  if (!head) {
    fmt::print(stderr, "worker {}: cannot reach the head on {}:{}\n", settings.index, settings.head_address,
               settings.head_port);
    return 1;
  }
  {
    caf::scoped_actor self{system};
    auto host = self->spawn<caf::monitored>(worker, std::move(*head), settings.index, settings.run_key, settings.cells,
                                            settings.factory);
    destroy(host);
    self->receive([](const caf::down_msg&) {});
  }
  system.await_all_actors_done();
  return 0;
}

}  // namespace troupe
