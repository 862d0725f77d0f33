#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "actors/schedule/schedule.hpp"
#include "catch.hpp"

// What tests of schedules share. The checks here share no code with the product's.

/// The schedule, which must exist.
inline troupe::schedule made(std::string_view name, troupe::schedule_shape shape) {
  auto s = troupe::make_schedule(name, shape);
  INFO(name << " p=" << shape.stages << " m=" << shape.micro_batches << " v=" << shape.chunks);
  if (!s) FAIL(s.error().where);
  return *s;
}

/// One stage's actions, "F0 F1 B0 B1".
inline std::string order(const troupe::schedule& s, std::size_t stage) {
  std::string text;
  for (const auto& a : s.actions[stage]) text += (text.empty() ? "" : " ") + to_string(a, s.chunks);
  return text;
}

/// An action and where it is: (virtual stage, micro-batch, pass).
using probe_key = std::tuple<std::uint32_t, std::uint32_t, troupe::pass>;

inline std::uint32_t where(const troupe::schedule& s, std::uint32_t stage, std::uint32_t chunk) {
  if (s.placement == troupe::chunk_placement::v_shape) return chunk == 0 ? stage : 2 * s.stages - 1 - stage;
  return chunk * s.stages + stage;
}

/// What must have run before: the alternatives, one of which suffices, of each input.
inline std::vector<std::vector<probe_key>> inputs_of(const troupe::schedule& s, const probe_key& key) {
  using troupe::pass;
  const auto [v, m, what] = key;
  const auto last = s.stages * s.chunks - 1;
  switch (what) {
    case pass::forward:
      return v == 0 ? std::vector<std::vector<probe_key>>{}
                    : std::vector<std::vector<probe_key>>{{{v - 1, m, pass::forward}}};
    case pass::backward_weight:
      return {{{v, m, pass::backward_input}}};
    case pass::backward:
    case pass::backward_input:
      break;
  }
  std::vector<std::vector<probe_key>> inputs = {{{v, m, pass::forward}}};
  if (v < last) inputs.push_back({{v + 1, m, pass::backward}, {v + 1, m, pass::backward_input}});
  return inputs;
}

/// By brute force: the right actions, no cycle of who waits for whom, and no stage above its bound. A depth-first
/// search over the graph of "must end before", built from maps.
inline bool valid_by_brute_force(const troupe::schedule& s) {
  using troupe::pass;
  std::map<probe_key, probe_key> before_on_stage;  // absent: the stage's first
  std::set<probe_key> all;
  for (std::uint32_t i = 0; i < s.stages; ++i) {
    std::set<probe_key> held;
    const probe_key* previous = nullptr;
    probe_key hold;
    for (const auto& a : s.actions[i]) {
      const probe_key key{where(s, i, a.chunk), a.micro_batch, a.what};
      if (!all.insert(key).second) return false;
      if (previous != nullptr) before_on_stage[key] = *previous;
      hold = key;
      previous = &hold;
      const probe_key forward{std::get<0>(key), a.micro_batch, pass::forward};
      if (a.what == pass::forward && !s.forward_only) held.insert(forward);
      if (a.what == pass::backward || a.what == pass::backward_weight) held.erase(forward);
      if (!s.most_in_flight.empty() && held.size() > s.most_in_flight[i]) return false;
    }
  }
  std::size_t expected = 0;
  for (std::uint32_t v = 0; v < s.stages * s.chunks; ++v)
    for (std::uint32_t m = 0; m < s.micro_batches; ++m) {
      const bool whole = all.contains({v, m, pass::backward});
      if (!all.contains({v, m, pass::forward})) return false;
      if (!s.forward_only && !whole &&
          (!all.contains({v, m, pass::backward_input}) || !all.contains({v, m, pass::backward_weight})))
        return false;
      expected += s.forward_only ? 1 : whole ? 2 : 3;
    }
  if (all.size() != expected) return false;
  std::map<probe_key, int> colour;  // 1: on the path, 2: done
  const std::function<bool(const probe_key&)> free_of_cycles = [&](const probe_key& key) {
    auto& mine = colour[key];
    if (mine != 0) return mine == 2;
    mine = 1;
    if (const auto b = before_on_stage.find(key); b != before_on_stage.end() && !free_of_cycles(b->second))
      return false;
    for (const auto& alternatives : inputs_of(s, key))
      for (const auto& input : alternatives)
        if (all.contains(input) && !free_of_cycles(input)) return false;
    return colour[key] = 2, true;
  };
  return std::all_of(all.begin(), all.end(), free_of_cycles);
}

/// Runs actions in an order that `random` draws among those that could run next: one way in which timing can turn out.
/// True when all ran.
inline bool ends_in_some_order(const troupe::schedule& s, std::mt19937& random) {
  std::set<probe_key> done;
  std::vector<std::size_t> cursor(s.stages, 0);
  for (;;) {
    std::vector<std::uint32_t> able;
    for (std::uint32_t i = 0; i < s.stages; ++i) {
      if (cursor[i] == s.actions[i].size()) continue;
      const auto& a = s.actions[i][cursor[i]];
      const auto inputs = inputs_of(s, {where(s, i, a.chunk), a.micro_batch, a.what});
      if (std::all_of(inputs.begin(), inputs.end(), [&](const auto& alternatives) {
            return std::any_of(alternatives.begin(), alternatives.end(),
                               [&](const auto& key) { return done.contains(key); });
          }))
        able.push_back(i);
    }
    if (able.empty()) break;
    const auto i = able[random() % able.size()];
    const auto& a = s.actions[i][cursor[i]++];
    done.insert({where(s, i, a.chunk), a.micro_batch, a.what});
  }
  for (std::uint32_t i = 0; i < s.stages; ++i)
    if (cursor[i] != s.actions[i].size()) return false;
  return true;
}
