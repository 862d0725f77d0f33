// What a port does with frames that no port would send.
#include <random>

#include "raw_peer.hpp"

using namespace troupe;
using namespace troupe::contract;

namespace {

/// A port and a raw peer connected to it.
struct attacked_port {
  explicit attacked_port(route over, std::uint32_t credits = 4) : options(options_for(over)), peer(options) {
    auto made = make_ucx_port(loop, options, shard_b, listener);
    if (!made) FAIL(to_string(made.error()));
    port = *std::move(made);
    peer.connect(*port, listener, credits);
  }
  /// Another message arrives, so the port is alive and the peer still has credit.
  void expect_a_good_one() {
    const auto n = listener.arrivals().size();
    const std::vector<std::uint8_t> payload(100, 42);
    peer.send(peer.tensor_frame(99, payload), payload);
    peer.progress_until([&] { return listener.arrivals().size() > n; });
    const auto last = listener.arrivals().back();
    CHECK(last.id.micro_batch == 99);
    CHECK(std::memcmp(last.payload.raw(), payload.data(), payload.size()) == 0);
    port->consumed(last.id);
    CHECK(listener.failures().empty());
  }
  std::uint64_t count(std::uint64_t port_counters::*counter) const { return port->counters().*counter; }

  port_options options;
  event_loop loop{"attacked"};
  recorder listener;
  raw_peer peer;
  std::unique_ptr<tensor_port> port;
};

std::vector<std::uint8_t> bytes_of(std::size_t n) { return std::vector<std::uint8_t>(n, 7); }

}  // namespace

TEST_CASE("frames that are not ours are counted as malformed and harm nothing", "[contract]") {
  attacked_port a(EVERY_UCX_ROUTE);
  std::mt19937 random(1);
  std::uint64_t sent = 0;
  for (std::size_t length : {1, 16, 67, 68, 76, 124, 125, 300, 1'000}) {
    for (std::size_t payload : {0, 10, 100'000}) {
      std::vector<std::uint8_t> noise(length);
      for (auto& b : noise) b = static_cast<std::uint8_t>(random());
      a.peer.send_bytes(noise.data(), noise.size(), bytes_of(payload));
      ++sent;
    }
  }
  a.peer.send_bytes(nullptr, 0, bytes_of(10));
  a.expect_a_good_one();
  CHECK(a.count(&port_counters::dropped_malformed) == sent + 1);
}

TEST_CASE("a flipped bit anywhere in a header lets nothing in", "[contract]") {
  attacked_port a(EVERY_UCX_ROUTE);
  const auto payload = bytes_of(10);
  const auto good = a.peer.bytes_of(a.peer.tensor_frame(1, payload));
  for (std::size_t byte = 0; byte < good.size(); ++byte) {
    auto bad = good;
    bad[byte] ^= static_cast<std::uint8_t>(1U << byte % 8);
    a.peer.send_bytes(bad, payload);
  }
  a.expect_a_good_one();
  CHECK(a.listener.arrivals().size() == 1);
  CHECK(a.count(&port_counters::dropped_foreign) == 4);  // in the four bytes that tell runs apart
  CHECK(a.count(&port_counters::dropped_malformed) == good.size() - 4);
}

TEST_CASE("a sealed header with a byte too many or too few is counted as malformed", "[contract]") {
  attacked_port a(EVERY_UCX_ROUTE);
  const auto payload = bytes_of(10);
  auto header = a.peer.bytes_of(a.peer.tensor_frame(1, payload));
  header.push_back(0);
  a.peer.send_bytes(header, payload);
  header.pop_back();
  header.pop_back();
  a.peer.send_bytes(header, payload);
  a.expect_a_good_one();
  CHECK(a.count(&port_counters::dropped_malformed) == 2);
}

TEST_CASE("a header that claims another length than was sent is counted as malformed", "[contract]") {
  attacked_port a(EVERY_UCX_ROUTE);
  const std::size_t bytes = GENERATE(as<std::size_t>(), 10, 100'000);
  const auto payload = bytes_of(bytes);
  for (std::size_t other : {bytes - 1, bytes + 1, std::size_t{0}, std::size_t{1} << 40}) {
    wire_header h = a.peer.tensor_frame(1, payload);
    describe(h, id_of(h), {dtype::u8, {static_cast<std::int64_t>(other)}});
    a.peer.send(h, payload);
  }
  a.expect_a_good_one();
  CHECK(a.count(&port_counters::dropped_malformed) == 4);
}

TEST_CASE("another run's key, another destination and an unknown source are foreign", "[contract]") {
  attacked_port a(EVERY_UCX_ROUTE);
  run_key other_key = test_key();
  other_key[15] ^= std::byte{1};
  const header_codec other_run(other_key);
  const std::size_t bytes = GENERATE(as<std::size_t>(), 10, 100'000);
  const auto payload = bytes_of(bytes);
  wire_header h = a.peer.tensor_frame(1, payload);
  a.peer.send_bytes(raw_peer::bytes_of(h, other_run), payload);
  h = a.peer.tensor_frame(1, payload);
  h.destination.stage ^= 1;
  a.peer.send(h, payload);
  h = a.peer.tensor_frame(1, payload);
  h.source.replica = 77;
  a.peer.send(h, payload);
  a.peer.send_bytes(raw_peer::bytes_of(a.peer.frame(frame_type::hello), other_run), {});
  a.expect_a_good_one();
  CHECK(a.count(&port_counters::dropped_foreign) == 4);
}

TEST_CASE("a frame that names our run and was sealed with another key is counted as malformed", "[contract]") {
  attacked_port a(EVERY_UCX_ROUTE);
  const auto payload = bytes_of(10);
  const wire_header h = a.peer.tensor_frame(1, payload);
  const auto ours = a.peer.bytes_of(h);
  auto forged = raw_peer::bytes_of(h, header_codec(run_key{}));
  std::copy_n(ours.begin() + offsetof(wire_header, run), sizeof h.run, forged.begin() + offsetof(wire_header, run));
  a.peer.send_bytes(forged, payload);
  a.expect_a_good_one();
  CHECK(a.count(&port_counters::dropped_malformed) == 1);
}

TEST_CASE("a frame of another connection is stale", "[contract]") {
  attacked_port a(EVERY_UCX_ROUTE);
  const auto payload = bytes_of(10);
  wire_header h = a.peer.tensor_frame(1, payload);
  ++h.connection;
  a.peer.send(h, payload);
  wire_header bye = a.peer.frame(frame_type::bye);
  --bye.connection;
  a.peer.send(bye);
  a.expect_a_good_one();
  CHECK(a.count(&port_counters::dropped_stale) == 2);
  CHECK(a.listener.closed() == 0);
}

TEST_CASE("a payload that changed on its way is counted, dropped and costs no credit", "[contract]") {
  attacked_port a(EVERY_UCX_ROUTE, 1);
  const std::size_t bytes = GENERATE(as<std::size_t>(), 10, 100'000);
  auto payload = bytes_of(bytes);
  const wire_header h = a.peer.tensor_frame(1, payload);
  payload[bytes / 2] ^= 1;
  a.peer.send(h, payload);
  a.expect_a_good_one();
  CHECK(a.count(&port_counters::dropped_corrupt) == 1);
  CHECK(a.count(&port_counters::messages_received) == 1);
}

TEST_CASE("without a checksum a payload is taken as it comes", "[contract]") {
  attacked_port a(EVERY_UCX_ROUTE);
  auto payload = bytes_of(10);
  wire_header h = a.peer.tensor_frame(1, payload);
  h.flags = 0;
  h.payload_checksum = 0;
  a.peer.send(h, payload);
  a.peer.progress_until([&] { return a.listener.arrivals().size() == 1; });
  CHECK(a.count(&port_counters::dropped_corrupt) == 0);
}

TEST_CASE("tensors beyond the credit are refused", "[contract]") {
  attacked_port a(EVERY_UCX_ROUTE, 2);
  const auto payload = bytes_of(10);
  for (std::uint32_t m = 0; m < 5; ++m) a.peer.send(a.peer.tensor_frame(m, payload), payload);
  a.peer.progress_until([&] { return a.count(&port_counters::dropped_refused) == 3; });
  CHECK(a.listener.arrivals().size() == 2);
  a.port->consumed(a.listener.arrivals()[0].id);
  a.port->consumed(a.listener.arrivals()[1].id);
  a.peer.progress_until([&] {
    a.peer.send(a.peer.tensor_frame(99, payload), payload);
    return a.listener.arrivals().size() >= 3;
  });
}

TEST_CASE("hellos with absurd counts make one failure, not a storm", "[contract]") {
  attacked_port a(EVERY_UCX_ROUTE);
  wire_header hello = a.peer.frame(frame_type::hello);
  hello.connection = 0;
  hello.number = 0x99990000'00000001;
  hello.incarnation = 0xffffffff;
  for (int i = 0; i < 10; ++i) a.peer.send(hello);
  a.peer.progress_until([&] { return a.listener.failures().size() == 1; });
  a.port.reset();
  CHECK(a.listener.failures().size() == 1);
}
