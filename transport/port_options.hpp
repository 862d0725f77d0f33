#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace troupe {

/// 128 bits that every message of one run carries; made by the head, carried over the control plane only.
using run_key = std::array<std::byte, 16>;

enum class port_route : std::uint8_t { shared_memory, tcp };

/// How a UCX port behaves. The defaults are for one machine.
struct port_options {
  run_key key{};
  port_route route = port_route::shared_memory;
  std::string tcp_device = "lo";                        ///< UCX_NET_DEVICES: the only device it listens on
  std::chrono::milliseconds handshake_timeout{10'000};  ///< HELLO both ways, retried inside
  std::chrono::milliseconds drain_timeout{5'000};       ///< from disconnect to goodbye
  std::chrono::microseconds spin{20};                   ///< busy poll after the last event, then sleep on the event fd
  std::size_t max_payload_bytes = std::size_t{4}
                                  << 30;  ///< beyond it a message is refused before anything is allocated
  bool payload_checksum = true;           ///< xxh3 over every payload
};

}  // namespace troupe
