#include "transport/wire_header.hpp"

#define XXH_INLINE_ALL  // a header is short: half the time of a call into the library
#include <xxhash.h>

#include <cassert>
#include <cstring>

namespace troupe {

namespace {

constexpr std::size_t sum_size = sizeof(std::uint64_t);

std::size_t tail_size(const wire_header& header) noexcept {
  return (header.flags == wire_header::has_payload_checksum ? sum_size : 0) + sizeof(std::int64_t) * header.rank;
}

header_fault check_tensor(wire_header& header) noexcept {
  if (!is_message_kind(header.kind)) return header_fault::unknown_kind;
  if (!is_dtype(header.dtype)) return header_fault::unknown_dtype;
  std::int64_t bytes = static_cast<std::int64_t>(size_of(static_cast<dtype>(header.dtype)));
  for (std::size_t axis = 0; axis < header.rank; ++axis) {
    const auto extent = header.dims[axis];
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return header_fault::wrong_dims;
  }
  header.payload_bytes = static_cast<std::uint64_t>(bytes);
  return header_fault::none;
}

header_fault check_control(wire_header& h) noexcept {
  h.payload_bytes = 0;
  const bool empty = h.kind == 0 && h.dtype == 0 && h.rank == 0 && h.flags == 0 && h.chunk == 0 && h.micro_batch == 0;
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
    case header_fault::foreign_run:
      return "foreign run";
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
  }
  return "?";
}

header_codec::header_codec(const run_key& key) noexcept
    : run_(static_cast<std::uint32_t>(XXH3_64bits(key.data(), key.size()))) {
  XXH3_generateSecret(secret_.data(), secret_.size(), key.data(), key.size());
}

std::uint64_t header_codec::checksum_of(const std::byte* bytes, std::size_t count) const noexcept {
  return XXH3_64bits_withSecret(bytes, count, secret_.data(), secret_.size());
}

void header_codec::encode(const wire_header& header, wire_image& image) const noexcept {
  assert(header.rank <= shape::max_rank);
  std::byte* const first = image.bytes_.data();
  std::byte* next = first + wire_header::fixed_size;
  std::memcpy(first, &header, wire_header::fixed_size);
  std::memcpy(first + offsetof(wire_header, run), &run_, sizeof run_);
  if (header.flags == wire_header::has_payload_checksum) {
    std::memcpy(next, &header.payload_checksum, sum_size);
    next += sum_size;
  }
  std::memcpy(next, header.dims.data(), sizeof header.dims);  // all of them, for a fixed length; the sum covers `rank`
  next += sizeof(std::int64_t) * header.rank;
  const std::uint64_t sum = checksum_of(first, static_cast<std::size_t>(next - first));
  std::memcpy(next, &sum, sum_size);
  image.size_ = static_cast<std::size_t>(next + sum_size - first);
}

header_fault header_codec::decode(std::span<const std::byte> bytes, wire_header& header) const noexcept {
  if (bytes.size() < wire_header::min_size || bytes.size() > wire_header::max_size) return header_fault::wrong_size;
  std::memcpy(static_cast<void*>(&header), bytes.data(), wire_header::fixed_size);
  if (header.magic != wire_header::expected_magic) return header_fault::wrong_magic;
  if (header.version != wire_header::current_version) return header_fault::wrong_version;
  if (header.run != run_) return header_fault::foreign_run;
  const std::size_t summed = bytes.size() - sum_size;
  std::uint64_t sum = 0;
  std::memcpy(&sum, bytes.data() + summed, sum_size);
  if (sum != checksum_of(bytes.data(), summed)) return header_fault::wrong_checksum;
  if (header.type < frame_type::tensor || header.type > frame_type::bye_ack) return header_fault::unknown_type;
  if (header.rank > shape::max_rank) return header_fault::wrong_rank;
  if (header.flags > wire_header::has_payload_checksum) return header_fault::contradiction;
  if (bytes.size() != wire_header::min_size + tail_size(header)) return header_fault::wrong_size;
  const std::byte* next = bytes.data() + wire_header::fixed_size;
  header.payload_checksum = 0;
  if (header.flags == wire_header::has_payload_checksum) {
    std::memcpy(&header.payload_checksum, next, sum_size);
    next += sum_size;
  }
  for (std::size_t axis = 0; axis < shape::max_rank; ++axis) {
    if (axis >= header.rank) break;
    std::memcpy(&header.dims[axis], next + axis * sizeof(std::int64_t), sizeof(std::int64_t));
  }
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

/// A loop up to `rank` instead compiles to a `rep movs`, which takes 25 ns: as long as both checksums of a header.
static shape shape_of(const wire_header& h) noexcept {
  const auto& d = h.dims;
  switch (h.rank) {
    case 0:
      return {};
    case 1:
      return {d[0]};
    case 2:
      return {d[0], d[1]};
    case 3:
      return {d[0], d[1], d[2]};
    case 4:
      return {d[0], d[1], d[2], d[3]};
    case 5:
      return {d[0], d[1], d[2], d[3], d[4]};
    default:
      return {d[0], d[1], d[2], d[3], d[4], d[5]};
  }
}

tensor_spec spec_of(const wire_header& h) noexcept { return {static_cast<dtype>(h.dtype), shape_of(h)}; }

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
  for (std::size_t axis = 0; axis < shape::max_rank; ++axis) h.dims[axis] = axis < h.rank ? spec.dims[axis] : 0;
}

}  // namespace troupe
