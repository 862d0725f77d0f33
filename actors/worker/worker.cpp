#include "actors/worker/worker.hpp"

#include <unistd.h>

#include "actors/mesh.hpp"
#include "actors/shard/shard_actor.hpp"

namespace troupe {

worker_actor::behavior_type worker(worker_actor::stateful_pointer<worker_state> self, supervisor_actor supervisor,
                                   std::uint32_t index, std::string run_key, std::span<progress_cell> cells,
                                   shard_factory factory) {
  auto& s = self->state;
  s.supervisor = std::move(supervisor);
  s.index = index;
  s.cells = cells;
  s.factory = std::move(factory);
  self->monitor(s.supervisor);
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  self->send(s.supervisor, worker_joined{std::move(run_key), index, static_cast<std::int32_t>(::getpid()), self});
  return {
      [self](const worker_assignment& a) {
        for (const auto& id : a.shards)
          self->spawn<caf::detached>(
              shard, shard_assignment{id, a.epoch, a.incarnation, a.first_step, a.config, {a.split.begin(), a.split.end()}},
              self->state.factory, &self->state.cells[mesh{a.stages, a.replicas, a.tensor_shards}.rank_of(id)],
              self->state.supervisor);
      },
      [self](const ping& p) {
        self->send(self->state.supervisor, pong{self->state.index, p.number});
      },
      [self](const end_worker&) { self->quit(); },
  };
}

}  // namespace troupe
