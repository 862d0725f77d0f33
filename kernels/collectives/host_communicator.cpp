#include "kernels/collectives/host_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/collectives/combine.hpp"

namespace troupe::group {

namespace {

constexpr std::size_t line = 32;  // elements: no two members write one cache line
// Between two looks at whether the group goes on: some microseconds of work.
constexpr std::size_t block_elements = 16'384, block_bytes = 256 << 10;

struct part {
  std::size_t first = 0, count = 0;
};
part slice_of(std::size_t elements, std::uint32_t rank, std::uint32_t size) {
  const auto each = ((elements + size - 1) / size + line - 1) / line * line;
  const auto first = std::min(elements, rank * each);
  return {first, std::min(each, elements - first)};
}

bool can_add(const tensor& x) { return x.type() == dtype::f32 || x.type() == dtype::bf16; }

std::byte* bytes_of(const tensor& t) { return static_cast<std::byte*>(t.raw()); }

std::uint64_t count_of(const tensor& t) { return static_cast<std::uint64_t>(t.elements()); }

}  // namespace

result<std::unique_ptr<communicator>> host_communicator::join(std::shared_ptr<void> keep, state& shared,
                                                              std::byte* arenas, std::shared_ptr<memory_source> memory,
                                                              const host_group_settings& settings) {
  TROUPE_TRY(auto members, meeting::join(shared, settings, arenas != nullptr));
  return std::unique_ptr<communicator>(
      new host_communicator(std::move(keep), arenas, shared.arena_bytes, std::move(memory), std::move(members)));
}

std::byte* host_communicator::shown_by(std::uint32_t rank) const noexcept {
  const auto address = meeting_->wanted_by(rank).address;
  return arenas_ ? arenas_ + rank * arena_bytes_ + address : reinterpret_cast<std::byte*>(address);
}

result<std::uint64_t> host_communicator::shared_address(const tensor& t) const {
  if (arenas_ == nullptr) return reinterpret_cast<std::uint64_t>(t.raw());
  if (!t || t.bytes() == 0) return std::uint64_t{0};
  const auto* own = arenas_ + rank() * arena_bytes_;
  if (bytes_of(t) < own || bytes_of(t) + t.bytes() > own + arena_bytes_)
    return invalid("a collective between processes was given a tensor that does not come from its group's memory");
  return static_cast<std::uint64_t>(bytes_of(t) - own);
}

// A member that cannot go on ends the group, so that the others do not wait for it.
error host_communicator::refuse(std::string why) {
  abort();
  return invalid(std::move(why));
}

template <class Work>
status host_communicator::together(request wanted, const tensor& shown, Work work) {
  auto address = shared_address(shown);
  if (!address) return refuse(std::move(address).error().where);
  wanted.address = *address;
  TROUPE_CHECK(meeting_->enter(wanted));
  if (!meeting_->touch() || !work()) return meeting_->retreat();
  return meeting_->finish();
}

template <class Run>
bool host_communicator::in_blocks(std::size_t first, std::size_t count, std::size_t block, Run run) const {
  for (const auto end = first + count; first < end; first += block) {
    if (meeting_->over()) return false;
    run(first, std::min(block, end - first));
  }
  return true;
}

bool host_communicator::copy(std::byte* to, const std::byte* from, std::size_t bytes) const {
  return in_blocks(0, to == from ? 0 : bytes, block_bytes,
                   [&](std::size_t at, std::size_t n) { std::memcpy(to + at, from + at, n); });
}

status host_communicator::all_reduce(const tensor& x, reduction how) {
  if (!x || !can_add(x)) return refuse("all_reduce takes f32 or bf16");
  const auto what = how == reduction::sum ? operation::all_reduce_sum : operation::all_reduce_max;
  return together({what, x.type(), 0, count_of(x), 0}, x, [&] {
    std::array<std::byte*, most_members> all{};
    for (std::uint32_t r = 0; r < size(); ++r) all[r] = shown_by(r);
    const std::span<std::byte* const> members(all.data(), size());
    const auto own = slice_of(count_of(x), rank(), size());
    return in_blocks(own.first, size() == 1 ? 0 : own.count, block_elements,
                     [&](std::size_t at, std::size_t n) { combine(x.type(), members, at, members, at, n, how); });
  });
}

status host_communicator::reduce_scatter(const tensor& whole, const tensor& part) {
  if (!whole || !part || !can_add(whole) || whole.type() != part.type() || whole.elements() != part.elements() * size())
    return refuse("reduce_scatter takes f32 or bf16, and a part of one member's share of the whole");
  return together({operation::reduce_scatter, whole.type(), 0, count_of(whole), 0}, whole, [&] {
    std::array<std::byte*, most_members> all{};
    for (std::uint32_t r = 0; r < size(); ++r) all[r] = shown_by(r);
    std::byte* const to[] = {bytes_of(part)};
    const auto first = rank() * count_of(part);
    return in_blocks(0, count_of(part), block_elements, [&](std::size_t at, std::size_t n) {
      combine(whole.type(), {all.data(), size()}, first + at, to, at, n, reduction::sum);
    });
  });
}

status host_communicator::all_gather(const tensor& part, const tensor& whole) {
  if (!whole || !part || whole.type() != part.type() || whole.elements() != part.elements() * size())
    return refuse(
        "all_gather takes a part of one type and a whole of size() "
        "times its elements");
  return together({operation::all_gather, whole.type(), 0, count_of(whole), 0}, part, [&] {
    bool going = true;
    for (std::uint32_t i = 0; going && i < size(); ++i) {
      const auto r = (rank() + i) % size();  // not all from the same at once
      going = copy(bytes_of(whole) + r * part.bytes(), r == rank() ? bytes_of(part) : shown_by(r), part.bytes());
    }
    return going;
  });
}

status host_communicator::broadcast(const tensor& x, std::uint32_t root) {
  if (!x || root >= size()) return refuse("broadcast takes a tensor and a root below the group's size");
  return together({operation::broadcast, x.type(), root, count_of(x), 0}, x,
                  [&] { return copy(bytes_of(x), rank() == root ? bytes_of(x) : shown_by(root), x.bytes()); });
}

status host_communicator::barrier() {
  TROUPE_CHECK(meeting_->enter(request{}));
  meeting_->leave();
  return {};
}

}  // namespace troupe::group
