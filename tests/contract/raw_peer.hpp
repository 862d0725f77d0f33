#pragma once

#include <optional>
#include <vector>

#include "routes.hpp"
#include "transport/ucp_context.hpp"
#include "transport/ucp_endpoint.hpp"
#include "transport/ucp_worker.hpp"
#include "transport/wire_header.hpp"

namespace troupe::contract {

/// A peer that speaks UCX itself and can therefore send what no port would. Driven by the test's thread.
class raw_peer {
public:
  explicit raw_peer(const port_options& options, shard_id self = shard_a)
      : self_(self),
        codec_(options.key),
        context_(must(ucp_context::make(options))),
        worker_(must(ucp_worker::make(context_.get()))) {
    REQUIRE(worker_.set_handler(&raw_peer::on_frame, this).ok());
  }
  ~raw_peer() {
    if (!endpoint_) return;
    endpoint_->close();
    while (!endpoint_->finished()) worker_.progress();
  }

  port_address address() { return must(worker_.address()); }

  /// Connects to `port` as a well-behaved peer would; `port` lets it have `credits` tensors unconsumed.
  void connect(tensor_port& port, recorder& listener, std::uint32_t credits) {
    port.connect(self_, address(), credits);
    endpoint_ = must(ucp_endpoint::make(worker_.get(), port.address(), alarm_));
    endpoint_->flush();
    progress_until([&] { return endpoint_->flushed() && their_token_ != 0; });
    destination_ = port.self();
    wire_header hello = frame(frame_type::hello);
    hello.connection = 0;
    hello.number = 0x1234;
    hello.incarnation = 1;
    hello.credits = 8;
    send(hello);
    send(frame(frame_type::hello_ack));
    progress_until([&] { return listener.ready() > 0; });
  }

  /// A frame as the port expects it.
  wire_header frame(frame_type type) const {
    wire_header h;
    h.type = type;
    h.source = self_;
    h.destination = destination_;
    h.connection = their_token_;
    return h;
  }
  wire_header tensor_frame(std::uint32_t micro_batch, const std::vector<std::uint8_t>& payload) const {
    wire_header h = frame(frame_type::tensor);
    message_id id{.source = self_, .destination = destination_, .micro_batch = micro_batch};
    describe(h, id, {dtype::u8, {static_cast<std::int64_t>(payload.size())}});
    h.flags = wire_header::has_payload_checksum;
    h.payload_checksum = payload_checksum(payload.data(), payload.size());
    return h;
  }

  /// `header` as it lies on the wire of this peer's run.
  std::vector<std::uint8_t> bytes_of(const wire_header& header) const { return bytes_of(header, codec_); }
  static std::vector<std::uint8_t> bytes_of(const wire_header& header, const header_codec& codec) {
    wire_image image;
    codec.encode(header, image);
    const auto* first = reinterpret_cast<const std::uint8_t*>(image.bytes().data());
    return {first, first + image.bytes().size()};
  }

  /// Sends `header` and returns when UCX has let go of it.
  void send(const wire_header& header, const std::vector<std::uint8_t>& payload = {}) {
    send_bytes(bytes_of(header), payload);
  }
  void send_bytes(const std::vector<std::uint8_t>& header, const std::vector<std::uint8_t>& payload) {
    send_bytes(header.data(), header.size(), payload);
  }
  void send_bytes(const void* header, std::size_t length, const std::vector<std::uint8_t>& payload) {
    const ucp_request_param_t param{};
    void* request = ucp_am_send_nbx(endpoint_->get(), 0, header, length, payload.data(), payload.size(), &param);
    if (!UCS_PTR_IS_PTR(request)) return;
    progress_until([&] { return ucp_request_check_status(request) != UCS_INPROGRESS; });
    ucp_request_free(request);
  }

  template <class Condition>
  void progress_until(Condition holds) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!holds() && std::chrono::steady_clock::now() < end) worker_.progress();
    REQUIRE(holds());
  }

private:
  template <class T>
  static T must(result<T> made) {
    if (!made) FAIL(to_string(made.error()));
    return *std::move(made);
  }

  static ucs_status_t on_frame(void* self, const void* header, std::size_t length, void*, std::size_t,
                               const ucp_am_recv_param_t*) {
    wire_header h;
    auto& peer = *static_cast<raw_peer*>(self);
    if (peer.codec_.decode({static_cast<const std::byte*>(header), length}, h) == header_fault::none &&
        h.type == frame_type::hello) {
      peer.their_token_ = h.number;
    }
    return UCS_OK;
  }

  const shard_id self_;
  const header_codec codec_;
  shard_id destination_{};
  std::uint64_t their_token_ = 0;
  bool alarm_ = false;
  ucp_context context_;
  ucp_worker worker_;
  std::unique_ptr<ucp_endpoint> endpoint_;
};

}  // namespace troupe::contract
