#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "actors/schedule/generators.hpp"
#include "actors/schedule/validate.hpp"

namespace troupe {

namespace {

struct generator {
  std::string_view name;
  schedule (*make)(schedule_shape);
  std::uint32_t chunks;     // that it is made for
  bool any_chunks = false;  // but others will do
  bool trains = true;
  bool filled = false;  // made for 2p micro-batches at least, of which those too many are dropped
  bool stream = false;  // of many steps, without a barrier between them
};

constexpr std::array generators{
    generator{"gpipe", make_gpipe, 1},
    generator{"1f1b", make_1f1b, 1},
    generator{"eager-1f1b", make_eager_1f1b, 1},
    generator{"interleaved", make_interleaved, 2, true},
    generator{"zb-h1", make_zb_h1, 1},
    generator{"zb-h2", make_zb_h2, 1},
    generator{"zb-v", make_zb_v, 2, false, true, true},
    generator{"dualpipev", make_dualpipev, 2, false, true, true},
    generator{"pipedream", make_pipedream, 1, false, true, false, true},
    generator{"pipedream-2bw", make_pipedream_2bw, 1, false, true, false, true},
    generator{"forward-only", make_forward_only, 1, true, false},
};

// So that no count of micro-batches, chunks or warm-up forwards leaves 32 bits, nor a chunk's number 16.
constexpr std::uint32_t most_stages = 65'535, most_micro_batches = 1'000'000, most_chunks = 1'024;
constexpr std::uint64_t most_actions = 32'000'000;  // 384 MB

status check_shape(const generator& g, const schedule_shape& shape) {
  const auto refuse = [&](std::string_view what, std::uint32_t value, std::uint32_t most) {
    return invalid(fmt::format("a schedule has 1 to {} {}, not {}", most, what, value));
  };
  if (shape.stages == 0 || shape.stages > most_stages) return refuse("stages", shape.stages, most_stages);
  if (shape.micro_batches == 0 || shape.micro_batches > most_micro_batches)
    return refuse("micro-batches", shape.micro_batches, most_micro_batches);
  if (shape.chunks > most_chunks) return refuse("chunks a stage", shape.chunks, most_chunks);
  if (!g.any_chunks && shape.chunks != g.chunks)
    return invalid(fmt::format("{} has {} chunk{} a stage, not {}; interleaved takes any number", g.name, g.chunks,
                               g.chunks == 1 ? "" : "s", shape.chunks));
  const std::uint64_t made = g.filled ? std::max(shape.micro_batches, 2 * shape.stages) : shape.micro_batches;
  if (3 * made * shape.stages * shape.chunks > most_actions)
    return invalid(fmt::format("{} stages with {} chunks and {} micro-batches are more than {} actions; ask for fewer",
                               shape.stages, shape.chunks, made, most_actions));
  return {};
}

}  // namespace

result<schedule> make_schedule(std::string_view name, schedule_shape shape) {
  const auto found = std::ranges::find(generators, name, &generator::name);
  if (found == generators.end())
    return invalid(fmt::format("no schedule is named '{}'; there are: {}", name, fmt::join(schedule_names(), ", ")));
  if (shape.chunks == 0) shape.chunks = found->chunks;
  TROUPE_CHECK(check_shape(*found, shape));
  auto made = found->make(shape);
  TROUPE_CHECK(validate(made));
  return made;
}

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const auto& g : generators) names.push_back(g.name);
  return names;
}

std::vector<std::string_view> runnable_schedule_names() {
  std::vector<std::string_view> names;
  for (const auto& g : generators)
    if (g.trains && !g.stream && g.chunks == 1) names.push_back(g.name);
  return names;
}

}  // namespace troupe
