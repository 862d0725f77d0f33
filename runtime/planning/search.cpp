#include "runtime/planning/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "runtime/planning/config_plan.hpp"

namespace troupe::planning {

namespace {

constexpr std::uint64_t most_actions = 4'000'000;  // of one simulation
constexpr std::uint32_t most_replicas = 65'535;    // that a shard's name can tell apart

std::vector<std::uint32_t> divisors_of(std::uint32_t n, std::uint32_t most) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) all.push_back(d);
  return all;
}

std::vector<std::uint32_t> chunk_choices(const std::string& schedule) {
  if (schedule == "interleaved") return {2, 3, 4, 6, 8};
  const auto made = make_schedule(schedule, {1, 1, 0});
  return {made ? made->chunks : 1};
}

struct open_candidate {
  training_plan plan;
  double least_s = 0;
};

class layout_search {
public:
  layout_search(const training_plan& like, const cluster& on, const std::vector<std::string>& schedules,
                std::size_t keep)
      : like_(like), on_(on), schedules_(schedules), keep_(keep) {}

  result<search_result> run() {
    const auto devices = on_.nodes * on_.devices_per_node;
    for (const auto tp : divisors_of(devices, on_.devices_per_node)) {
      if (like_.model.heads % tp != 0) continue;
      for (const auto pp : divisors_of(devices / tp, static_cast<std::uint32_t>(like_.pieces())))
        if (devices / tp / pp <= most_replicas) add_mesh({pp, devices / tp / pp, tp});
    }
    std::ranges::stable_sort(open_, {}, &open_candidate::least_s);
    for (const auto& o : open_) {
      if (found_.best.size() == keep_ && o.least_s >= found_.best.back().step_s) break;
      try_out(o.plan);
    }
    if (found_.best.empty()) return nothing_fits();
    return std::move(found_);
  }

private:
  void add_mesh(const mesh& m) {
    auto p = like_;
    p.extents = m;
    p.split.clear();
    for (p.micro_batch = 1; like_.global_batch % (p.micro_batch * m.replicas) == 0; p.micro_batch *= 2) {
      if (p.rows_are_cut() && p.micro_batch * p.model.seq_len % m.shards != 0) continue;
      for (const auto& name : schedules_)
        for (const auto chunks : chunk_choices(name)) {
          p.schedule = name;
          p.chunks = chunks;
          add_recomputings(p);
        }
    }
  }

  void add_recomputings(training_plan p) {
    if (p.pieces() < std::int64_t{p.extents.stages} * p.chunks) return;
    if (p.extents.stages == 1 && p.schedule != "1f1b") return;  // all are alike there, and this one keeps least
    if (3ULL * p.micro_batches() * p.extents.stages * p.chunks > most_actions) return;
    for (const auto r : {recomputing::none, recomputing::selective, recomputing::full}) {
      p.recompute = r;
      ++found_.considered;
      add_one(p);
    }
  }

  // What can be seen without a schedule: that it does not fit, or how fast it is at best.
  void add_one(const training_plan& p) {
    const auto chunks = cut_model(p);
    if (!chunks) return;
    std::int64_t parameters = 0;
    for (const auto& c : *chunks) parameters += c.costs.parameters;
    const auto state = p.numbers.state / (p.split_optimizer ? p.extents.replicas : 1);
    // Some stage has its share of the parameters, or more; a shared table may have counted twice.
    const auto floor =
        (parameters - chunks->front().costs.table) / p.extents.stages * (p.numbers.value + p.numbers.gradient + state);
    if (too_big(floor)) return;
    open_.push_back({p, least_step_s(p, on_, *chunks)});
  }

  bool too_big(std::int64_t bytes) {
    if (static_cast<double>(bytes) <= on_.memory_bytes) return false;
    ++found_.too_big;
    least_bytes_ = std::min(least_bytes_, bytes);
    return true;
  }

  void try_out(const training_plan& p) {
    const auto chunks = cut_model(p);
    auto order = schedule_of(p);
    if (!chunks || !order) return;
    std::int64_t peak = 0;
    for (std::uint32_t i = 0; i < order->stages; ++i)
      peak = std::max(peak, memory_of_stage(p, *chunks, *order, i).bytes());
    if (too_big(peak)) return;
    const auto where = place(p.extents, {on_.nodes, on_.devices_per_node}, traffic_of(p, *chunks, *order));
    if (!where) return;
    const auto step = predict_step(p, on_, *where, *chunks, std::move(*order));
    if (!step) return;
    ++found_.simulated;
    keep({p, step->terms, step->step_s, step->tokens_per_s, step->mfu, step->run.bubble_makespan, peak});
  }

  // Of layouts that differ in what they recompute alone the fastest is enough.
  void keep(candidate c) {
    auto& best = found_.best;
    const auto same = std::ranges::find_if(best, [&](const candidate& b) { return alike(b.plan, c.plan); });
    if (same != best.end()) {
      if (same->step_s <= c.step_s) return;
      best.erase(same);
    }
    best.insert(std::ranges::upper_bound(best, rank_of(c), {}, rank_of), std::move(c));
    if (best.size() > keep_) best.pop_back();
  }

  static std::pair<double, std::int64_t> rank_of(const candidate& c) { return {c.step_s, c.peak_bytes}; }

  static bool alike(const training_plan& a, const training_plan& b) {
    return a.extents.stages == b.extents.stages && a.extents.shards == b.extents.shards && a.schedule == b.schedule &&
           a.chunks == b.chunks && a.micro_batch == b.micro_batch;
  }

  error nothing_fits() const {
    if (found_.too_big == 0)
      return invalid(fmt::format("no mesh of {} devices divides {} heads, {} layers and a global batch of {} sequences",
                                 on_.nodes * on_.devices_per_node, like_.model.heads, like_.model.layers,
                                 like_.global_batch));
    return invalid(
        fmt::format("none of {} layouts fits {} devices of {}: the smallest needs at least {} on one of them; give the "
                    "cluster more devices or memory, or set parallel.zero = 1",
                    found_.considered, on_.nodes * on_.devices_per_node, bytes_text(on_.memory_bytes),
                    bytes_text(static_cast<double>(least_bytes_))));
  }

  const training_plan& like_;
  const cluster& on_;
  const std::vector<std::string>& schedules_;
  std::size_t keep_;
  std::vector<open_candidate> open_;
  std::int64_t least_bytes_ = std::numeric_limits<std::int64_t>::max();
  search_result found_;
};

std::string_view largest_term(const step_terms& terms, const step_terms& minus, double& value) {
  std::string_view largest;
  value = -std::numeric_limits<double>::infinity();
  for (const auto& [name, term] : step_term_names)
    if (const double d = terms.*term - minus.*term; d > value) {
      value = d;
      largest = name;
    }
  return largest;
}

}  // namespace

result<search_result> search_layouts(const training_plan& like, const cluster& on,
                                     const std::vector<std::string>& schedules, std::size_t keep) {
  return layout_search(like, on, schedules, keep).run();
}

std::string layout_text(const training_plan& p) {
  const auto chunks = p.chunks > 1 ? fmt::format(" with {} chunks", p.chunks) : std::string();
  return fmt::format("{}, {}{}, micro-batch {}, recompute {}", mesh_text(p.extents), p.schedule, chunks, p.micro_batch,
                     to_string(p.recompute));
}

std::string explanation(const search_result& found) {
  const auto& best = found.best.front();
  double lost = 0, more = 0, less = 0;
  auto overhead = best.terms;
  overhead.matrix = 0;
  const auto costliest = largest_term(overhead, {}, lost);
  auto text =
      fmt::format("best: {:.0f} % of its step are matrix products; the largest of the rest is {} with {:.1f} %.",
                  100 * best.terms.matrix / best.step_s, costliest, 100 * lost / best.step_s);
  if (found.best.size() < 2) return text;
  const auto& next = found.best[1];
  const auto dearer = largest_term(next.terms, best.terms, more);
  const auto cheaper = largest_term(best.terms, next.terms, less);
  text += fmt::format("\nrunner-up ({}): {} slower ({:.1f} %), most of all by {} ({} more)", layout_text(next.plan),
                      seconds_text(next.step_s - best.step_s), 100 * (next.step_s / best.step_s - 1), dearer,
                      seconds_text(more));
  if (less > 1e-3 * best.step_s) text += fmt::format(", though it saves {} of {}", seconds_text(less), cheaper);
  return text + '.';
}

}  // namespace troupe::planning
