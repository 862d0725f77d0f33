#include "actors/schedule/schedule_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "actors/schedule/validate.hpp"

namespace troupe {

namespace {

constexpr std::string_view letters = "FBIW";
constexpr std::uint32_t most_listed = 1'000'000;  // virtual stages, micro-batches

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(at), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// An action whose chunk is not known yet.
struct entry {
  std::uint32_t virtual_stage = 0, micro_batch = 0;
  pass what = pass::forward;
};

std::optional<entry> parse(std::string_view text) {
  entry e;
  const auto* end = text.data() + text.size();
  const auto stage = std::from_chars(text.data(), end, e.virtual_stage);
  if (stage.ec != std::errc() || stage.ptr == end) return {};
  const auto letter = letters.find(*stage.ptr);
  const auto micro_batch = std::from_chars(stage.ptr + 1, end, e.micro_batch);
  if (letter == letters.npos || micro_batch.ec != std::errc() || micro_batch.ptr != end) return {};
  if (e.virtual_stage >= most_listed || e.micro_batch >= most_listed) return {};
  e.what = static_cast<pass>(letter);
  return e;
}

// The single actions that `text` stands for: none, one, or two of an overlapped pair.
std::vector<std::string_view> singles(std::string_view text) {
  constexpr std::string_view pair_end = ")OVERLAP_F_B";
  if (text.empty()) return {};
  if (!text.starts_with('(') || !text.ends_with(pair_end)) return {text};
  return split(text.substr(1, text.size() - 1 - pair_end.size()), ';');
}

using rows = std::vector<std::vector<entry>>;  // [stage]

result<rows> parse_rows(std::string_view csv) {
  rows all;
  for (auto line : split(csv, '\n')) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    auto& row = all.emplace_back();
    for (const auto cell : split(line, ','))
      for (const auto text : singles(cell)) {
        const auto e = parse(text);
        if (!e) return invalid(fmt::format("line {}: '{}' is no action such as 0F3 or 2I1", all.size(), text));
        row.push_back(*e);
      }
  }
  return all;
}

bool lies_as_placed(const schedule& s, const rows& all) {
  for (std::uint32_t i = 0; i < s.stages; ++i)
    for (const auto& e : all[i])
      if (place_of(s, e.virtual_stage).stage != i) return false;
  return true;
}

// Where every virtual stage lies, from how many there are and who has which.
status find_placement(schedule& s, const rows& all) {
  std::uint64_t virtual_stages = 0, entries = 0;
  for (const auto& row : all) {
    entries += row.size();
    for (const auto& e : row) {
      virtual_stages = std::max<std::uint64_t>(virtual_stages, e.virtual_stage + 1);
      s.micro_batches = std::max(s.micro_batches, e.micro_batch + 1);
    }
  }
  if (entries < virtual_stages * s.micro_batches)  // also: no memory for what was only named, not listed
    return invalid(fmt::format("{} actions cannot take {} micro-batches through {} virtual stages", entries,
                               s.micro_batches, virtual_stages));
  s.stages = static_cast<std::uint32_t>(all.size());
  if (s.stages == 0 || virtual_stages == 0 || virtual_stages % s.stages != 0)
    return invalid(fmt::format("{} lines cannot share {} virtual stages evenly", s.stages, virtual_stages));
  s.chunks = static_cast<std::uint32_t>(virtual_stages) / s.stages;
  if (lies_as_placed(s, all)) return {};
  s.placement = chunk_placement::v_shape;
  if (s.chunks == 2 && lies_as_placed(s, all)) return {};
  return invalid("the virtual stages lie neither looped (stage i has i, p+i, …) nor in a V (i and 2p-1-i)");
}

void take_actions(schedule& s, const rows& all) {
  s.forward_only = true;
  for (std::uint32_t i = 0; i < s.stages; ++i) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> has_weights;  // (virtual stage, micro-batch)
    for (const auto& e : all[i])
      if (e.what == pass::backward_weight) has_weights.emplace(e.virtual_stage, e.micro_batch);
    auto& stage = s.actions.emplace_back();
    for (const auto& e : all[i]) {
      const bool half = e.what == pass::backward && has_weights.contains({e.virtual_stage, e.micro_batch});
      stage.push_back({half ? pass::backward_input : e.what, e.micro_batch, place_of(s, e.virtual_stage).chunk});
      s.forward_only = s.forward_only && e.what == pass::forward;
    }
  }
}

}  // namespace

std::vector<std::vector<std::string>> action_names(const schedule& s) {
  std::vector<std::vector<std::string>> names;
  for (const auto& stage : s.actions) {
    auto& line = names.emplace_back();
    for (const auto& a : stage) line.push_back(to_string(a, s.chunks));
  }
  return names;
}

std::string to_text(const schedule& s) {
  std::string text;
  for (std::uint32_t i = 0; const auto& stage : action_names(s))
    text += fmt::format("s{:<3} {}\n", i++, fmt::join(stage, " "));
  return text;
}

std::string to_csv(const schedule& s) {
  std::string text;
  for (std::uint32_t i = 0; i < s.stages; ++i) {
    std::string_view separator;
    for (const auto& a : s.actions[i]) {
      text += fmt::format("{}{}{}", separator, s.virtual_stage(i, a.chunk), to_string(a));
      separator = ",";
    }
    text += '\n';
  }
  return text;
}

result<schedule> from_csv(std::string_view csv, std::string_view name) {
  schedule s;
  s.name = name;
  TROUPE_TRY(const auto all, parse_rows(csv));
  TROUPE_CHECK(find_placement(s, all));
  take_actions(s, all);
  TROUPE_CHECK(validate(s));
  return s;
}

}  // namespace troupe
