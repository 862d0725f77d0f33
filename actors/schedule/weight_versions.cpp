#include "actors/schedule/weight_versions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace troupe {

namespace {

/// Walks one stage's actions. `choose(j, newest)` says which version micro-batch j takes; every `step` backwards make a
/// new one.
template <class Choose>
status walk(const schedule& s, std::uint32_t stage, std::uint32_t step, weight_versions& out, Choose choose) {
  auto& used = out.used.emplace_back(s.micro_batches, 0);
  auto& most = out.most_kept.emplace_back(1);
  std::uint32_t backwards = 0;
  std::multiset<std::uint32_t> in_flight;
  for (const auto& a : s.actions[stage]) {
    if (a.what == pass::forward) {
      const auto newest = backwards / step;
      const std::uint32_t version = used[a.micro_batch] = choose(a.micro_batch, newest);
      if (version > newest)
        return invalid(
            fmt::format("stage {} runs {} with the weights of update {}, which is not there yet; a step needs "
                        "at least {} micro-batches",
                        stage, to_string(a), version, s.stages - 1));
      in_flight.insert(version);
    } else if (a.what != pass::backward_input) {
      in_flight.extract(used[a.micro_batch]);
      ++backwards;
    }
    std::set<std::uint32_t> kept(in_flight.begin(), in_flight.end());
    kept.insert(backwards / step);
    most = std::max(most, static_cast<std::uint32_t>(kept.size()));
  }
  return {};
}

}  // namespace

weight_versions pipedream_versions(const schedule& s) {
  weight_versions out;
  for (std::uint32_t i = 0; i < s.stages; ++i)
    (void)walk(s, i, 1, out, [](std::uint32_t, std::uint32_t newest) { return newest; });
  return out;
}

result<weight_versions> double_buffered_versions(const schedule& s, std::uint32_t step_micro_batches) {
  if (step_micro_batches == 0) return invalid("a step has at least one micro-batch");
  weight_versions out;
  const auto choose = [&](std::uint32_t j, std::uint32_t) {
    const auto step = j / step_micro_batches;
    return step == 0 ? 0 : step - 1;
  };
  for (std::uint32_t i = 0; i < s.stages; ++i) TROUPE_CHECK(walk(s, i, step_micro_batches, out, choose));
  return out;
}

}  // namespace troupe
