#include "transport/wire_header.hpp"

#define XXH_INLINE_ALL  // the header has a fixed length: half the time of a call into the library
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace troupe {

namespace {

std::uint64_t checksum_of(const wire_header& header) noexcept {
  return XXH3_64bits(&header, offsetof(wire_header, header_checksum));
}

header_fault check_tensor(const wire_header& header) noexcept {
  if (header.kind < 1 || header.kind > 3) return header_fault::unknown_kind;
  if (!is_dtype(header.dtype)) return header_fault::unknown_dtype;
  if (header.rank > shape::max_rank) return header_fault::wrong_rank;
  std::int64_t bytes = static_cast<std::int64_t>(size_of(static_cast<dtype>(header.dtype)));
  for (std::size_t axis = 0; axis < header.dims.size(); ++axis) {
    const auto extent = header.dims[axis];
    if (axis >= header.rank && extent != 0) return header_fault::contradiction;
    if (axis >= header.rank) continue;
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return header_fault::wrong_dims;
  }
  if (header.payload_bytes != static_cast<std::uint64_t>(bytes)) return header_fault::wrong_payload_size;
  const bool summed = header.flags == wire_header::has_payload_checksum;
  if (header.flags > wire_header::has_payload_checksum || (!summed && header.payload_checksum != 0)) {
    return header_fault::contradiction;
  }
  return header_fault::none;
}

header_fault check_control(const wire_header& h) noexcept {
  const bool empty = h.kind == 0 && h.dtype == 0 && h.rank == 0 && h.flags == 0 && h.chunk == 0 && h.micro_batch == 0 &&
                     h.payload_bytes == 0 && h.payload_checksum == 0 && h.dims == decltype(h.dims){};
  return empty ? header_fault::none : header_fault::contradiction;
}

}  // namespace

std::string_view to_string(header_fault fault) noexcept {
  switch (fault) {
    case header_fault::none:
      return "none";
    case header_fault::wrong_size:
      return "wrong size";
    case header_fault::wrong_magic:
      return "wrong magic";
    case header_fault::wrong_version:
      return "wrong version";
    case header_fault::wrong_checksum:
      return "wrong checksum";
    case header_fault::unknown_type:
      return "unknown type";
    case header_fault::unknown_kind:
      return "unknown kind";
    case header_fault::unknown_dtype:
      return "unknown dtype";
    case header_fault::wrong_rank:
      return "wrong rank";
    case header_fault::wrong_dims:
      return "wrong dims";
    case header_fault::contradiction:
      return "contradiction";
    case header_fault::wrong_payload_size:
      return "wrong payload size";
  }
  return "?";
}

void seal(wire_header& header) noexcept { header.header_checksum = checksum_of(header); }

header_fault decode(std::span<const std::byte> bytes, wire_header& header) noexcept {
  if (bytes.size() != sizeof header) return header_fault::wrong_size;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != wire_header::expected_magic) return header_fault::wrong_magic;
  if (header.version != wire_header::current_version) return header_fault::wrong_version;
  if (header.header_checksum != checksum_of(header)) return header_fault::wrong_checksum;
  if (header.type < frame_type::tensor || header.type > frame_type::bye_ack) return header_fault::unknown_type;
  return header.type == frame_type::tensor ? check_tensor(header) : check_control(header);
}

message_id id_of(const wire_header& h) noexcept {
  return {.kind = static_cast<message_kind>(h.kind),
          .source = h.source,
          .destination = h.destination,
          .epoch = h.epoch,
          .incarnation = h.incarnation,
          .step = h.number,
          .micro_batch = h.micro_batch,
          .chunk = h.chunk};
}

tensor_spec spec_of(const wire_header& h) noexcept {
  return {static_cast<dtype>(h.dtype), shape(std::span(h.dims.data(), h.rank))};
}

void describe(wire_header& h, const message_id& id, const tensor_spec& spec) noexcept {
  h.kind = static_cast<std::uint8_t>(id.kind);
  h.dtype = static_cast<std::uint8_t>(spec.type);
  h.epoch = id.epoch;
  h.incarnation = id.incarnation;
  h.micro_batch = id.micro_batch;
  h.number = id.step;
  h.chunk = id.chunk;
  h.rank = static_cast<std::uint8_t>(spec.dims.rank());
  h.payload_bytes = spec.bytes();
  std::copy_n(spec.dims.dims().begin(), h.rank, h.dims.begin());
}

}  // namespace troupe
