#include "transport/wire_header.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "catch.hpp"

using namespace troupe;

namespace {

using image = std::vector<std::byte>;

const run_key some_key{std::byte{9}, std::byte{8}, std::byte{7}};
const header_codec codec(some_key);

const message_id some_id{.kind = message_kind::gradient,
                         .source = {1, 2, 3},
                         .destination = {4, 5, 6},
                         .epoch = 7,
                         .incarnation = 8,
                         .step = 1'234'567'890'123,
                         .micro_batch = 9,
                         .chunk = 10};

wire_header tensor_header(tensor_spec spec = {dtype::bf16, {2, 3, 4}}) {
  wire_header h;
  h.source = some_id.source;
  h.destination = some_id.destination;
  describe(h, some_id, spec);
  return h;
}

image bytes_of(const wire_header& h, const header_codec& with = codec) {
  wire_image encoded;
  with.encode(h, encoded);
  return {encoded.bytes().begin(), encoded.bytes().end()};
}

header_fault fault_of(const image& bytes) {
  wire_header out;
  return codec.decode(bytes, out);
}

/// The fault of a header that someone changed before it was sealed, as a sender with a bug would.
header_fault fault_after(const std::function<void(wire_header&)>& change) {
  wire_header h = tensor_header();
  change(h);
  return fault_of(bytes_of(h));
}

/// A header of `spec` with `value` at `offset`, sealed by someone who has the key and writes what `encode` would not.
image sealed_with(const tensor_spec& spec, std::size_t offset, int value) {
  image bytes = bytes_of(tensor_header(spec));
  bytes[offset] = static_cast<std::byte>(value);
  std::array<std::byte, 192> secret;
  XXH3_generateSecret(secret.data(), secret.size(), some_key.data(), some_key.size());
  const std::uint64_t sum = XXH3_64bits_withSecret(bytes.data(), bytes.size() - 8, secret.data(), secret.size());
  std::memcpy(&bytes[bytes.size() - 8], &sum, sizeof sum);
  return bytes;
}

}  // namespace

TEST_CASE("a tensor header decodes to what was described", "[wire_header]") {
  wire_header h = tensor_header(), out;
  h.connection = 11;
  h.credits = 12;
  h.flags = wire_header::has_payload_checksum;
  h.payload_checksum = 13;
  REQUIRE(codec.decode(bytes_of(h), out) == header_fault::none);
  CHECK(id_of(out) == some_id);
  CHECK(spec_of(out) == tensor_spec{dtype::bf16, {2, 3, 4}});
  CHECK(out.payload_bytes == 48);
  CHECK(out.connection == 11);
  CHECK(out.credits == 12);
  CHECK(out.payload_checksum == 13);
}

TEST_CASE("the wire's bytes are the ones version 2 has always had", "[wire_header]") {
  wire_header h = tensor_header();
  h.flags = wire_header::has_payload_checksum;
  h.payload_checksum = 0x1122334455667788;
  const image bytes = bytes_of(h);
  const auto at = [&](std::size_t offset) { return std::to_integer<int>(bytes[offset]); };
  REQUIRE(bytes.size() == 60 + 8 + 3 * 8 + 8);
  CHECK(std::memcmp(bytes.data(), "TRUP\x02\x01\x02\x02", 8) == 0);
  CHECK(at(12) == 1);     // source.replica
  CHECK(at(22) == 6);     // destination.shard
  CHECK(at(24) == 7);     // epoch
  CHECK(at(28) == 8);     // incarnation
  CHECK(at(32) == 9);     // micro-batch
  CHECK(at(56) == 10);    // chunk
  CHECK(at(58) == 3);     // rank
  CHECK(at(59) == 1);     // flags
  CHECK(at(60) == 0x88);  // payload checksum
  CHECK(at(68) == 2);     // dims[0]
  CHECK(at(84) == 4);     // dims[2]
}

TEST_CASE("a header is no longer than its rank and its checksum ask for", "[wire_header]") {
  CHECK(bytes_of(wire_header{.type = frame_type::credit}).size() == wire_header::min_size);
  CHECK(bytes_of(tensor_header({dtype::u8, {8}})).size() == 76);
  wire_header longest = tensor_header({dtype::u8, {1, 2, 3, 4, 5, 6}});
  longest.flags = wire_header::has_payload_checksum;
  CHECK(bytes_of(longest).size() == wire_header::max_size);
}

TEST_CASE("every single flipped bit is refused", "[wire_header]") {
  const image good = bytes_of(tensor_header());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    image bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    INFO("bit " << bit);
    REQUIRE(fault_of(bad) != header_fault::none);
  }
}

TEST_CASE("every field is under the checksum", "[wire_header]") {
  const image good = bytes_of(tensor_header());
  for (std::size_t byte = offsetof(wire_header, type); byte < good.size(); ++byte) {
    if (byte >= offsetof(wire_header, run) && byte < offsetof(wire_header, source)) continue;  // told first
    image bad = good;
    bad[byte] = ~bad[byte];
    INFO("byte " << byte);
    CHECK(fault_of(bad) == header_fault::wrong_checksum);
  }
}

TEST_CASE("every other length is refused", "[wire_header]") {
  const image good = bytes_of(tensor_header());
  for (std::size_t length = 0; length < 2 * wire_header::max_size; ++length) {
    image other = good;
    other.resize(length);
    const bool possible = length >= wire_header::min_size && length <= wire_header::max_size;
    INFO("length " << length);
    if (length != good.size())
      CHECK(fault_of(other) == (possible ? header_fault::wrong_checksum : header_fault::wrong_size));
  }
}

TEST_CASE("a key that differs in one bit seals other headers", "[wire_header]") {
  const image ours = bytes_of(tensor_header());
  for (std::size_t bit = 0; bit < some_key.size() * 8; ++bit) {
    run_key key = some_key;
    key[bit / 8] ^= std::byte{1} << (bit % 8);
    image theirs = bytes_of(tensor_header(), header_codec(key));
    INFO("bit " << bit);
    CHECK(fault_of(theirs) == header_fault::foreign_run);
    std::copy_n(ours.begin() + offsetof(wire_header, run), 4, theirs.begin() + offsetof(wire_header, run));
    CHECK(fault_of(theirs) == header_fault::wrong_checksum);
  }
}

TEST_CASE("the key is not in the header", "[wire_header]") {
  const image bytes = bytes_of(tensor_header());
  CHECK(std::search(bytes.begin(), bytes.end(), some_key.begin(), some_key.begin() + 3) == bytes.end());
}

TEST_CASE("random bytes are refused, even sealed under the right magic", "[wire_header]") {
  std::mt19937_64 random(42);
  int accepted = 0;
  for (int round = 0; round < 100'000; ++round) {
    image noise(wire_header::min_size + random() % 57);
    for (auto& b : noise) b = static_cast<std::byte>(random());
    REQUIRE(fault_of(noise) != header_fault::none);
    wire_header h;
    std::memcpy(static_cast<void*>(&h), noise.data(), wire_header::fixed_size);
    h.magic = wire_header::expected_magic;
    h.version = wire_header::current_version;
    h.type = static_cast<frame_type>(1 + random() % 6);
    h.rank %= shape::max_rank + 1;
    for (auto& extent : h.dims) extent = static_cast<std::int64_t>(random());
    accepted += fault_of(bytes_of(h)) == header_fault::none;
  }
  CHECK(accepted == 0);
}

TEST_CASE("a sealed header that contradicts itself is refused with its reason", "[wire_header]") {
  CHECK(fault_after([](auto& h) { h.magic = 1; }) == header_fault::wrong_magic);
  CHECK(fault_after([](auto& h) { h.version = 1; }) == header_fault::wrong_version);
  CHECK(fault_after([](auto& h) { h.type = frame_type{0}; }) == header_fault::unknown_type);
  CHECK(fault_after([](auto& h) { h.type = frame_type{7}; }) == header_fault::unknown_type);
  CHECK(fault_after([](auto& h) { h.kind = 0; }) == header_fault::unknown_kind);
  CHECK(fault_after([](auto& h) { h.kind = 0xff; }) == header_fault::unknown_kind);
  CHECK(fault_after([](auto& h) { h.dtype = 0; }) == header_fault::unknown_dtype);
  CHECK(fault_after([](auto& h) { h.dims[0] = -2; }) == header_fault::wrong_dims);
  CHECK(fault_after([](auto& h) { h.flags = 2; }) == header_fault::contradiction);
  CHECK(fault_after([](auto& h) { h.type = frame_type::credit; }) == header_fault::contradiction);
}

TEST_CASE("a sealed header of another length than its rank and flags ask for is refused", "[wire_header]") {
  // What was sealed with six extents claims more, fewer, or a checksum besides.
  for (int rank : {0, 5, 7, 255}) {
    const image bytes = sealed_with({dtype::u8, {1, 2, 3, 4, 5, 6}}, offsetof(wire_header, rank), rank);
    CHECK(fault_of(bytes) == (rank > 6 ? header_fault::wrong_rank : header_fault::wrong_size));
  }
  CHECK(fault_of(sealed_with({dtype::u8, {4}}, offsetof(wire_header, flags), 1)) == header_fault::wrong_size);
  CHECK(fault_of(sealed_with({dtype::u8, {4}}, offsetof(wire_header, rank), 2)) == header_fault::wrong_size);
}

TEST_CASE("every kind of message that is declared passes", "[wire_header]") {
  int kinds = 0;
  for (int kind = 0; kind < 256; ++kind) {
    const auto number = static_cast<std::uint8_t>(kind);
    const auto fault = fault_after([&](auto& h) { h.kind = number; });
    CHECK((fault == header_fault::none) == is_message_kind(number));
    kinds += fault == header_fault::none;
  }
  CHECK(kinds >= 3);
}

TEST_CASE("extents whose product overflows are refused", "[wire_header]") {
  const auto huge = std::numeric_limits<std::int64_t>::max();
  CHECK(fault_after([&](auto& h) { h.dims = {huge, huge, huge}; }) == header_fault::wrong_dims);
  CHECK(fault_after([&](auto& h) {
          h.dims = {std::int64_t{1} << 31, std::int64_t{1} << 31, 4};
        }) == header_fault::wrong_dims);
}

TEST_CASE("scalars, empty tensors and six axes pass", "[wire_header]") {
  for (const shape& dims : {shape{}, shape{0}, shape{5, 0}, shape{1, 2, 1, 2, 1, 2}}) {
    wire_header out;
    REQUIRE(codec.decode(bytes_of(tensor_header({dtype::i32, dims})), out) == header_fault::none);
    CHECK(spec_of(out).dims == dims);
  }
}

TEST_CASE("a control frame passes with its number, connection and credits", "[wire_header]") {
  wire_header h{.type = frame_type::hello, .credits = 3, .number = 77, .connection = 5};
  wire_header out;
  REQUIRE(codec.decode(bytes_of(h), out) == header_fault::none);
  CHECK(out.number == 77);
  CHECK(out.connection == 5);
  CHECK(out.credits == 3);
}

TEST_CASE("a payload's checksum is xxh3 of 64 bits, whatever the processor", "[wire_header]") {
  const std::string text = "Troupe";
  CHECK(payload_checksum(nullptr, 0) == 0x2d06800538d394c2U);  // of the xxHash specification
  CHECK(payload_checksum(text.data(), text.size()) != payload_checksum(text.data(), text.size() - 1));
}
