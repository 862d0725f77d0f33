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
        auto started = s.launcher->start(index, [me, index](process_end end) {
          if (auto strong = me.lock())
            caf::anon_send(caf::actor_cast<node_agent_actor>(std::move(strong)),
                           worker_exited{index, 0, end.signal, end.code});
        });
        if (!started) {
          self->send(s.supervisor, start_failed{index, to_string(started.error())});
          return;
        }
        s.running[index] = *started;
      },
      [self](const signal_workers& what) {
        for (const auto& [index, pid] : self->state.running) self->state.launcher->signal(index, what.signal);
      },
      [self](const signal_worker& what) { self->state.launcher->signal(what.worker, what.signal); },
      // From the launcher, whose callback may run before `start` has returned the pid; here it is known.
      [self](worker_exited gone) {
        auto& running = self->state.running;
        gone.pid = running[gone.worker];
        running.erase(gone.worker);
        self->send(self->state.supervisor, gone);
      },
  };
}

}  // namespace troupe
