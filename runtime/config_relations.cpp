#include "runtime/config_relations.hpp"

#include <fmt/format.h>

#include <initializer_list>
#include <numeric>

namespace troupe {
namespace {

/// The places to look at, in a sentence's beginning: the origin of the first of `keys` that somebody set.
error blame(const origin_lookup& origin, std::initializer_list<std::string_view> keys, std::string_view sentence) {
  for (const auto key : keys)
    if (const auto place = origin(key); place != "default") return invalid(fmt::format("{}: {}", place, sentence));
  return invalid(fmt::format("default: {}", sentence));
}

// The nearest multiple of `unit` to `value`, at least one `unit`.
std::int64_t nearest_multiple(std::int64_t value, std::int64_t unit) {
  return std::max<std::int64_t>(1, (value + unit / 2) / unit) * unit;
}

status check_gpt(const config& c, const origin_lookup& origin) {
  if (c.model.hidden % c.model.heads != 0)
    return blame(origin, {"model.hidden", "model.heads"},
                 fmt::format("model.hidden = {} is not a multiple of model.heads = {}; hidden = {} would do",
                             c.model.hidden, c.model.heads, nearest_multiple(c.model.hidden, c.model.heads)));
  if (c.model.heads % c.parallel.tp != 0)
    return blame(origin, {"parallel.tp", "model.heads"},
                 fmt::format("parallel.tp = {} does not divide model.heads = {}; choose a tp that does, or heads = {}",
                             c.parallel.tp, c.model.heads, nearest_multiple(c.model.heads, c.parallel.tp)));
  const auto pieces = c.model.layers + 2;  // the embedding and the head are pieces of their own
  if (c.parallel.pp > pieces)
    return blame(origin, {"parallel.pp", "model.layers"},
                 fmt::format("parallel.pp = {} is more than the {} pieces of a model with model.layers = {} (embedding "
                             "and head included); choose pp up to {}",
                             c.parallel.pp, pieces, c.model.layers, pieces));
  const auto& split = c.parallel.split;
  const auto sum = std::accumulate(split.begin(), split.end(), std::int64_t{0});
  if (!split.empty() && sum != pieces)
    return blame(origin, {"parallel.split", "model.layers"},
                 fmt::format("parallel.split adds up to {}, but model.layers = {} with embedding and head are {} "
                             "pieces; make the numbers add up to {}",
                             sum, c.model.layers, pieces, pieces));
  return {};
}

}  // namespace

status check_relations(const config& c, const origin_lookup& origin) {
  const auto samples = c.train.micro_batch * c.parallel.dp;  // of one micro-batch in every replica
  if (c.train.global_batch % samples != 0)
    return blame(
        origin, {"train.global_batch", "train.micro_batch", "parallel.dp"},
        fmt::format("train.global_batch = {} is not a multiple of train.micro_batch = {}{}; global_batch = {} would do",
                    c.train.global_batch, c.train.micro_batch,
                    c.parallel.dp > 1 ? fmt::format(" times parallel.dp = {}", c.parallel.dp) : std::string(),
                    nearest_multiple(c.train.global_batch, samples)));
  if (c.data.tokenizer == "bytes" && c.model.vocab < 256)
    return blame(origin, {"model.vocab", "data.tokenizer"},
                 fmt::format("model.vocab = {} is too small for data.tokenizer = \"bytes\"; choose at least 256",
                             c.model.vocab));
  if (!c.parallel.split.empty() && static_cast<std::int64_t>(c.parallel.split.size()) != c.parallel.pp)
    return blame(origin, {"parallel.split", "parallel.pp"},
                 fmt::format("parallel.split names {} stages, but parallel.pp = {}; give one number a stage",
                             c.parallel.split.size(), c.parallel.pp));
  if (c.model.kind == "gpt") return check_gpt(c, origin);
  return {};
}

}  // namespace troupe
