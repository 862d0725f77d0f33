#include "transport/ucp_worker.hpp"

#include "transport/ucx_error.hpp"

namespace troupe {

result<ucp_worker> ucp_worker::make(ucp_context_h context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // made on one thread, driven and destroyed on the loop's
  ucp_worker_h worker = nullptr;
  if (const auto s = ucp_worker_create(context, &params, &worker); s != UCS_OK) {
    return ucx_error(s == UCS_ERR_NO_MEMORY ? errc::out_of_memory : errc::system_failure, s, "ucp_worker_create");
  }
  return ucp_worker(handle(worker));
}

status ucp_worker::set_handler(ucp_am_recv_callback_t handler, void* arg) {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                     UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = 0;
  param.flags = UCP_AM_FLAG_WHOLE_MSG;
  param.cb = handler;
  param.arg = arg;
  if (const auto s = ucp_worker_set_am_recv_handler(get(), &param); s != UCS_OK) {
    return ucx_error(errc::system_failure, s, "ucp_worker_set_am_recv_handler");
  }
  return {};
}

result<port_address> ucp_worker::address() const {
  ucp_address_t* bytes = nullptr;
  std::size_t length = 0;
  if (const auto s = ucp_worker_get_address(get(), &bytes, &length); s != UCS_OK) {
    return ucx_error(errc::system_failure, s, "ucp_worker_get_address");
  }
  const auto* first = reinterpret_cast<const std::byte*>(bytes);
  port_address copy(first, first + length);
  ucp_worker_release_address(get(), bytes);
  return copy;
}

result<int> ucp_worker::event_fd() const {
  int fd = -1;
  if (const auto s = ucp_worker_get_efd(get(), &fd); s != UCS_OK) {
    return ucx_error(errc::system_failure, s, "ucp_worker_get_efd");
  }
  return fd;
}

}  // namespace troupe
