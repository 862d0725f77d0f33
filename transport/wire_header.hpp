#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "transport/port_options.hpp"
#include "transport/tensor_message.hpp"

namespace troupe {

/// What a frame of the data plane is for. The numbers go over the wire.
enum class frame_type : std::uint8_t {
  tensor = 1,     ///< a payload of `dtype` and `dims` follows
  hello = 2,      ///< "I have connected; `number` is my token, `credits` what you may have unconsumed here"
  hello_ack = 3,  ///< "I know your token"
  credit = 4,     ///< "`credits` of your messages were consumed"
  bye = 5,        ///< "I sent `number` tensors and will send no more"
  bye_ack = 6,    ///< "I have them all"
};

/// What the header before every frame says. Its first `fixed_size` bytes are in the order of the wire, little-endian,
/// without gaps; behind them follow there the payload's checksum if `flags` says so, `rank` extents, and the header's
/// checksum. Change the order and `current_version` together.
struct wire_header {
  static constexpr std::uint32_t expected_magic = 0x50555254;  // "TRUP"
  static constexpr std::uint8_t current_version = 2;
  static constexpr std::uint8_t has_payload_checksum = 1;  ///< a bit of `flags`; the others are zero
  static constexpr std::size_t fixed_size = 60, min_size = fixed_size + 8,
                               max_size = min_size + 8 + 8 * shape::max_rank;

  std::uint32_t magic = expected_magic;
  std::uint8_t version = current_version;
  frame_type type = frame_type::tensor;
  std::uint8_t kind = 0;  ///< `message_kind` of a tensor, else 0
  std::uint8_t dtype = 0;
  std::uint32_t run = 0;  ///< 32 bits of a hash of the run's key, filled in by `header_codec`
  shard_id source{}, destination{};
  std::uint32_t epoch = 0;
  std::uint32_t incarnation = 0;  ///< of a tensor's sender; in a hello, the count of its endpoints to the receiver
  std::uint32_t micro_batch = 0;
  std::uint32_t credits = 0;     ///< given back along with any frame; the grant in a hello
  std::uint64_t number = 0;      ///< the step of a tensor, the token of a hello, the count of a bye
  std::uint64_t connection = 0;  ///< the token that the receiver chose in its hello; 0 in a hello
  std::uint16_t chunk = 0;
  std::uint8_t rank = 0;
  std::uint8_t flags = 0;

  std::uint64_t payload_checksum = 0;
  std::array<std::int64_t, shape::max_rank> dims{};  ///< unspecified beyond `rank`
  std::uint64_t payload_bytes = 0;                   ///< not on the wire: what `dims` and `dtype` come to
};

static_assert(std::endian::native == std::endian::little, "the wire format is this machine's memory format");
static_assert(std::is_trivially_copyable_v<wire_header>);
static_assert(offsetof(wire_header, flags) + sizeof(wire_header::flags) == wire_header::fixed_size);

/// A header as it lies on the wire.
class wire_image {
public:
  std::span<const std::byte> bytes() const noexcept { return {bytes_.data(), size_}; }

private:
  friend class header_codec;
  std::array<std::byte, wire_header::max_size> bytes_;
  std::size_t size_ = 0;
};

/// Why a frame's header is refused.
enum class header_fault : std::uint8_t {
  none,
  wrong_size,
  wrong_magic,
  wrong_version,
  foreign_run,     ///< of a run with another key
  wrong_checksum,  ///< changed on its way, or its sender does not know the run's key
  unknown_type,
  unknown_kind,
  unknown_dtype,
  wrong_rank,
  wrong_dims,    ///< negative, or a product beyond 2^63
  contradiction  ///< a field that this type does not have is set
};

std::string_view to_string(header_fault fault) noexcept;

/// Turns headers of one run into bytes and back. The run's key is not sent: the header's checksum is xxh3 with a secret
/// made of it, so a frame that passes was sealed by someone who knows the key.
class header_codec {
public:
  explicit header_codec(const run_key& key) noexcept;

  /// What `header` looks like on the wire; judges nothing but that `rank` is in bounds (asserted).
  void encode(const wire_header& header, wire_image& image) const noexcept;
  /// Reads a header from untrusted bytes of any length and alignment. `header` is meaningful only for `none`. Whose
  /// peer or epoch it belongs to, and whether the payload has `payload_bytes`, is not judged here.
  header_fault decode(std::span<const std::byte> bytes, wire_header& header) const noexcept;

private:
  std::uint64_t checksum_of(const std::byte* bytes, std::size_t count) const noexcept;

  std::uint32_t run_;
  std::array<std::byte, 192> secret_;  // of the length that XXH3_generateSecret's authors use themselves
};

/// The parts of a tensor frame's header.
message_id id_of(const wire_header& header) noexcept;
tensor_spec spec_of(const wire_header& header) noexcept;
void describe(wire_header& header, const message_id& id, const tensor_spec& spec) noexcept;

/// xxh3, 64 bits.
std::uint64_t payload_checksum(const void* bytes, std::size_t count) noexcept;

}  // namespace troupe
