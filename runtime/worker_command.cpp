#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>

#include "runtime/assembly.hpp"
#include "runtime/run_command.hpp"
#include "runtime/worker_launcher.hpp"
#include "transport/ucx_port.hpp"

namespace troupe {

int worker_command(const worker_request& request, const std::vector<model_definition>& models) {
  // The head's death is this process's too, from whatever instant on.
  const int head_pid = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != head_pid || head_pid == 1) ::_exit(1);

  const char* hex = std::getenv("TROUPE_RUN_KEY");
  auto key = run_key_from_hex(hex != nullptr ? hex : "");
  auto page = progress_page::adopt(request.cells_descriptor);
  if (!key || !page) {
    fmt::print(stderr, "troupe worker: {}\n", key ? to_string(page.error()) : to_string(key.error()));
    return 2;
  }
  event_loop loop("troupe data");
  return run_cluster_worker({request.head_address, request.head_port, hex, request.index, page->cells(),
                             make_shard_factory(models, {nullptr, &loop, *key, nullptr, request.group_descriptor})});
}

}  // namespace troupe
