#include "actors/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe {

namespace {

constexpr std::string_view pass_letters = "FBIW";

// a … z, aa, ab, …: numbers with the digits 1 … 26.
std::string chunk_letters(std::uint32_t chunk) {
  std::string letters;
  for (auto rest = chunk + 1; rest > 0; rest = (rest - 1) / 26)
    letters.insert(letters.begin(), static_cast<char>('a' + (rest - 1) % 26));
  return letters;
}

}  // namespace

std::string to_string(const action& a) { return to_string(a, 1); }

std::string to_string(const action& a, std::uint32_t chunks) {
  return fmt::format("{}{}{}", pass_letters[static_cast<std::size_t>(a.what)], chunks > 1 ? chunk_letters(a.chunk) : "",
                     a.micro_batch);
}

std::uint32_t schedule::virtual_stage(std::uint32_t stage, std::uint32_t chunk) const {
  const bool back = placement == chunk_placement::v_shape && chunk % 2 == 1;
  return chunk * stages + (back ? stages - 1 - stage : stage);
}

chunk_place place_of(const schedule& s, std::uint32_t virtual_stage) {
  const auto chunk = virtual_stage / s.stages, along = virtual_stage % s.stages;
  const bool back = s.placement == chunk_placement::v_shape && chunk % 2 == 1;
  return {back ? s.stages - 1 - along : along, static_cast<std::uint16_t>(chunk)};
}

std::uint32_t peak_in_flight(const schedule& s, std::uint32_t stage) {
  if (s.forward_only) return 0;
  std::uint32_t now = 0, peak = 0;
  for (const auto& a : s.actions[stage]) {
    if (a.what == pass::forward) peak = std::max(peak, ++now);
    if (a.what == pass::backward || a.what == pass::backward_weight) --now;
  }
  return peak;
}

std::vector<std::uint32_t> peaks_in_flight(const schedule& s) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < s.stages; ++i) all.push_back(peak_in_flight(s, i));
  return all;
}

}  // namespace troupe
