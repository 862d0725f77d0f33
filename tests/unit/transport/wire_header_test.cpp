#include "transport/wire_header.hpp"

#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "catch.hpp"

using namespace troupe;

namespace {

using image = std::array<std::byte, sizeof(wire_header)>;

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
  seal(h);
  return h;
}

image bytes_of(const wire_header& h) {
  image bytes;
  std::memcpy(bytes.data(), &h, sizeof h);
  return bytes;
}

header_fault fault_of(const wire_header& h) {
  wire_header out;
  return decode(bytes_of(h), out);
}

/// The fault of a header that someone changed and sealed again, as a sender with a bug would.
header_fault fault_after(const std::function<void(wire_header&)>& change) {
  wire_header h = tensor_header();
  change(h);
  seal(h);
  return fault_of(h);
}

}  // namespace

TEST_CASE("a tensor header decodes to what was described", "[wire_header]") {
  wire_header out;
  REQUIRE(decode(bytes_of(tensor_header()), out) == header_fault::none);
  CHECK(id_of(out) == some_id);
  CHECK(spec_of(out) == tensor_spec{dtype::bf16, {2, 3, 4}});
  CHECK(out.payload_bytes == 48);
}

TEST_CASE("the wire's bytes are the ones version 1 has always had", "[wire_header]") {
  const image bytes = bytes_of(tensor_header());
  const auto at = [&](std::size_t offset) { return std::to_integer<int>(bytes[offset]); };
  CHECK(std::memcmp(bytes.data(), "TRUP\x01\x01\x02\x02", 8) == 0);
  CHECK(at(24) == 1);   // source.replica
  CHECK(at(34) == 6);   // destination.shard
  CHECK(at(36) == 7);   // epoch
  CHECK(at(40) == 8);   // incarnation
  CHECK(at(44) == 9);   // micro-batch
  CHECK(at(64) == 10);  // chunk
  CHECK(at(66) == 3);   // rank
  CHECK(at(72) == 48);  // payload bytes
  CHECK(at(88) == 2);   // dims[0]
  CHECK(at(104) == 4);  // dims[2]
}

TEST_CASE("every single flipped bit is refused", "[wire_header]") {
  const image good = bytes_of(tensor_header());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    image bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    wire_header out;
    INFO("bit " << bit);
    REQUIRE(decode(bad, out) != header_fault::none);
  }
}

TEST_CASE("every other length is refused before a byte is read", "[wire_header]") {
  const image good = bytes_of(tensor_header());
  wire_header out;
  for (std::size_t length = 0; length < good.size(); ++length) {
    CHECK(decode(std::span(good.data(), length), out) == header_fault::wrong_size);
  }
  CHECK(decode(std::vector<std::byte>(sizeof(wire_header) + 1), out) == header_fault::wrong_size);
}

TEST_CASE("random bytes are refused, even sealed under the right magic", "[wire_header]") {
  std::mt19937_64 random(42);
  int accepted = 0;
  for (int round = 0; round < 100'000; ++round) {
    wire_header h;
    image noise;
    for (auto& b : noise) b = static_cast<std::byte>(random());
    std::memcpy(&h, noise.data(), sizeof h);
    wire_header out;
    REQUIRE(decode(noise, out) != header_fault::none);
    h.magic = wire_header::expected_magic;
    h.version = wire_header::current_version;
    h.type = static_cast<frame_type>(1 + random() % 6);
    seal(h);
    accepted += fault_of(h) == header_fault::none;
  }
  CHECK(accepted == 0);
}

TEST_CASE("a sealed header that contradicts itself is refused with its reason", "[wire_header]") {
  CHECK(fault_after([](auto& h) { h.magic = 1; }) == header_fault::wrong_magic);
  CHECK(fault_after([](auto& h) { h.version = 2; }) == header_fault::wrong_version);
  CHECK(fault_after([](auto& h) { h.type = frame_type{0}; }) == header_fault::unknown_type);
  CHECK(fault_after([](auto& h) { h.type = frame_type{7}; }) == header_fault::unknown_type);
  CHECK(fault_after([](auto& h) { h.kind = 0; }) == header_fault::unknown_kind);
  CHECK(fault_after([](auto& h) { h.kind = 4; }) == header_fault::unknown_kind);
  CHECK(fault_after([](auto& h) { h.dtype = 0; }) == header_fault::unknown_dtype);
  CHECK(fault_after([](auto& h) { h.rank = 7; }) == header_fault::wrong_rank);
  CHECK(fault_after([](auto& h) { h.dims[0] = -2; }) == header_fault::wrong_dims);
  CHECK(fault_after([](auto& h) { h.dims[5] = 1; }) == header_fault::contradiction);
  CHECK(fault_after([](auto& h) { h.flags = 2; }) == header_fault::contradiction);
  CHECK(fault_after([](auto& h) { h.payload_checksum = 1; }) == header_fault::contradiction);
  CHECK(fault_after([](auto& h) { h.payload_bytes = 47; }) == header_fault::wrong_payload_size);
  CHECK(fault_after([](auto& h) { h.type = frame_type::credit; }) == header_fault::contradiction);
}

TEST_CASE("extents whose product overflows are refused", "[wire_header]") {
  const auto huge = std::numeric_limits<std::int64_t>::max();
  CHECK(fault_after([&](auto& h) { h.dims = {huge, huge, huge}; }) == header_fault::wrong_dims);
  CHECK(fault_after([&](auto& h) {
          h.dims = {std::int64_t{1} << 31, std::int64_t{1} << 31, 4};
          h.payload_bytes = 0;
        }) == header_fault::wrong_dims);
}

TEST_CASE("scalars, empty tensors and six axes pass", "[wire_header]") {
  for (const shape& dims : {shape{}, shape{0}, shape{5, 0}, shape{1, 2, 1, 2, 1, 2}}) {
    wire_header out;
    REQUIRE(decode(bytes_of(tensor_header({dtype::i32, dims})), out) == header_fault::none);
    CHECK(spec_of(out).dims == dims);
  }
}

TEST_CASE("a control frame passes with its number, connection and credits", "[wire_header]") {
  wire_header h{.type = frame_type::hello, .number = 77, .connection = 5, .credits = 3};
  seal(h);
  wire_header out;
  REQUIRE(decode(bytes_of(h), out) == header_fault::none);
  CHECK(out.number == 77);
  CHECK(out.connection == 5);
  CHECK(out.credits == 3);
}

TEST_CASE("a payload's checksum is xxh3 of 64 bits, whatever the processor", "[wire_header]") {
  const std::string text = "Troupe";
  CHECK(payload_checksum(nullptr, 0) == 0x2d06800538d394c2U);  // of the xxHash specification
  CHECK(payload_checksum(text.data(), text.size()) != payload_checksum(text.data(), text.size() - 1));
}
