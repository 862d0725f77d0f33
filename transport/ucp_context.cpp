#include "transport/ucp_context.hpp"

#include <fmt/format.h>
#include <net/if.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "transport/ucx_error.hpp"
#include "transport/ucx_port.hpp"

namespace troupe {

namespace {

using settings = std::vector<std::pair<const char*, std::string>>;

settings settings_of(const port_options& options) {
  if (options.route == port_route::shared_memory) {
    return {{"TLS", "posix"},
            // Without it UCX 1.13 silently refuses shared memory to endpoints that report failures.
            {"MM_ERROR_HANDLING", "y"},
            // The only way in which UCX notices a dead peer over shared memory.
            {"KEEPALIVE_INTERVAL", "1s"},
            // Our header and a small payload then fit into one slot of the queue.
            {"MM_FIFO_ELEM_SIZE", "256"}};
  }
  return {{"TLS", "tcp"},
          {"NET_DEVICES", options.tcp_device},
          // UCX's own probes become unacknowledged data, which parks the kernel's faster ones.
          {"KEEPALIVE_INTERVAL", "inf"},
          // Else connecting to a host that does not answer holds the loop's thread for minutes.
          {"CONN_NB", "y"},
          {"KEEPIDLE", "1s"},
          {"KEEPINTVL", "1s"},
          {"KEEPCNT", "3"},
          // UCX 1.13 aborts (a completion counted twice) when a send fails that it had begun without a copy. So all is
          // copied through segments that stay in the cache, and large payloads still wait for their receiver.
          {"ZCOPY_THRESH", "inf"},
          {"PUT_ENABLE", "n"},
          {"TX_SEG_SIZE", "512kb"},
          {"RX_SEG_SIZE", "512kb"},
          {"RNDV_THRESH", "8kb"}};
}

struct release_config {
  void operator()(ucp_config_t* c) const noexcept { ucp_config_release(c); }
};

}  // namespace

result<ucp_context> ucp_context::make(const port_options& options) {
  if (options.route == port_route::tcp && if_nametoindex(options.tcp_device.c_str()) == 0) {
    return invalid(fmt::format("no network device \"{}\" on this machine (ip link lists them)", options.tcp_device));
  }
  ucp_config_t* raw = nullptr;
  if (const auto s = ucp_config_read(nullptr, nullptr, &raw); s != UCS_OK) {
    return ucx_error(errc::system_failure, s, "reading UCX's settings (a UCX_ variable may be malformed)");
  }
  const std::unique_ptr<ucp_config_t, release_config> config(raw);
  for (const auto& [name, value] : settings_of(options)) {
    if (const auto s = ucp_config_modify(raw, name, value.c_str()); s != UCS_OK) {
      return ucx_error(errc::system_failure, s, fmt::format("setting UCX's {} to {}", name, value));
    }
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  if (const auto s = ucp_init(&params, raw, &context); s != UCS_OK) {
    return ucx_error(errc::system_failure, s, "ucp_init (ucx_info -d lists what UCX finds here)");
  }
  return ucp_context(handle(context));
}

void set_ucx_environment() {
  constexpr int keep_the_users = 0;
  setenv("UCX_ERROR_SIGNALS", "", keep_the_users);   // else UCX takes SIGSEGV, SIGBUS, SIGFPE and SIGILL over
  setenv("UCX_LOG_LEVEL", "error", keep_the_users);  // a peer's death is our news, not a warning on stderr
  setenv("UCX_WARN_UNUSED_ENV_VARS", "n", keep_the_users);
  setenv("UCX_MM_ERROR_HANDLING", "y", keep_the_users);  // for programs of the same job that use UCX by themselves
}

}  // namespace troupe
