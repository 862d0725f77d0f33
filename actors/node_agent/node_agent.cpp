#include "actors/node_agent/node_agent.hpp"

namespace troupe {

node_agent_actor::behavior_type node_agent(node_agent_actor::stateful_pointer<node_agent_state> self,
                                           process_launcher* launcher, supervisor_actor supervisor) {
  self->state.launcher = launcher;
  self->state.supervisor = std::move(supervisor);
  self->monitor(self->state.supervisor);
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  return {
      [self](const start_worker& start) {
        auto& s = self->state;
        const auto me = caf::actor_cast<caf::weak_actor_ptr>(self->address());
        const auto index = start.worker;
        const auto pid = std::make_shared<std::atomic<int>>(0);
        auto started = s.launcher->start(index, [me, index, pid](process_end end) {
          if (auto strong = me.lock())
            caf::anon_send(caf::actor_cast<node_agent_actor>(std::move(strong)),
                           worker_exited{index, pid->load(), end.signal, end.code});
        });
        if (!started) {
          self->send(s.supervisor, start_failed{index, to_string(started.error())});
          return;
        }
        pid->store(*started);
        s.running.insert(index);
      },
      [self](const signal_workers& what) {
        for (auto index : self->state.running) self->state.launcher->signal(index, what.signal);
      },
      [self](const worker_exited& gone) {
        self->state.running.erase(gone.worker);
        self->send(self->state.supervisor, gone);
      },
  };
}

}  // namespace troupe
