#include "transport/ucp_endpoint.hpp"

#include "transport/ucx_error.hpp"

namespace troupe {

void ucp_endpoint::on_failure(void* arg, ucp_ep_h, ucs_status_t status) {
  static_cast<ucp_endpoint*>(arg)->note_failure(status);
}

result<std::unique_ptr<ucp_endpoint>> ucp_endpoint::make(ucp_worker_h worker, const port_address& where, bool& alarm) {
  if (where.empty()) return error{errc::peer_unreachable, "the peer's address is empty"};
  std::unique_ptr<ucp_endpoint> endpoint(new ucp_endpoint(alarm));
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(where.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_failure, endpoint.get()};
  if (const auto s = ucp_ep_create(worker, &params, &endpoint->handle_); s != UCS_OK) {
    return ucx_error(errc::peer_unreachable, s, "ucp_ep_create");
  }
  return endpoint;
}

void ucp_endpoint::flush() noexcept {
  const ucp_request_param_t param{};
  flush_.hold(ucp_ep_flush_nbx(handle_, &param));
}

void ucp_endpoint::close() noexcept {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  close_.hold(ucp_ep_close_nbx(handle_, &param));
}

bool ucp_endpoint::polled_request::finished() noexcept {
  if (!request_) return true;
  if (ucp_request_check_status(request_) == UCS_INPROGRESS) return false;
  ucp_request_free(request_);
  request_ = nullptr;
  return true;
}

}  // namespace troupe
