#include "runtime/planning/step_prediction.hpp"

#include <algorithm>

#include "runtime/planning/gradient_exchange.hpp"

namespace troupe::planning {

namespace {

/// Runs the pipelines of all replicas; those whose hops are alike once.
class replica_runs {
public:
  replica_runs(const laid_out_plan& l, const std::vector<chunk_seconds>& seconds)
      : l_(l), seconds_(seconds), inside_s_(hop_s(l.plan, l.on, true)), between_s_(hop_s(l.plan, l.on, false)) {}

  status run_all() {
    for (std::uint32_t r = 0; r < l_.plan.extents.replicas; ++r) {
      auto borders = nodes_left_by(r);
      if (std::ranges::find(seen_, borders) != seen_.end()) continue;
      seen_.push_back(std::move(borders));
      TROUPE_TRY(auto run, run_one(r));
      note_last_backwards(gradients_, l_.order, run);
      if (run.makespan > slowest_.makespan) slowest_ = std::move(run);
    }
    return {};
  }
  const gradient_times& gradients() const { return gradients_; }
  virtual_run take_slowest() { return std::move(slowest_); }

private:
  // [stage]: whether the next one is on another node.
  std::vector<bool> nodes_left_by(std::uint32_t replica) const {
    const auto stages = l_.order.stages;
    std::vector<bool> leaves;
    for (std::uint32_t i = 0; i < stages; ++i)
      leaves.push_back(l_.where.node_of(replica, i) != l_.where.node_of(replica, (i + 1) % stages));
    return leaves;
  }

  result<virtual_run> run_one(std::uint32_t replica) const {
    const auto time = [&](std::uint32_t stage, const action& a) {
      return seconds_[l_.order.virtual_stage(stage, a.chunk)].of(a.what);
    };
    const auto hop = [&](std::uint32_t from, std::uint32_t to) {
      return l_.where.node_of(replica, from) == l_.where.node_of(replica, to) ? inside_s_ : between_s_;
    };
    return run_in_virtual_time(l_.order, time, hop);
  }

  const laid_out_plan& l_;
  const std::vector<chunk_seconds>& seconds_;
  double inside_s_, between_s_;
  std::vector<std::vector<bool>> seen_;
  gradient_times gradients_;
  virtual_run slowest_;
};

void fill_stages(const laid_out_plan& l, step_prediction& out) {
  for (std::uint32_t i = 0; i < l.order.stages; ++i) {
    stage_prediction stage;
    stage.memory = memory_of_stage(l.plan, l.chunks, l.order, i);
    for (const auto& a : out.run.actions[i]) stage.work_s += a.end - a.start;
    stage.bubble = out.run.makespan > 0 ? 1 - stage.work_s / out.run.makespan : 0;
    out.stages.push_back(stage);
  }
}

std::vector<stage_memory> memory_of(const step_prediction& p) {
  std::vector<stage_memory> memory;
  for (const auto& s : p.stages) memory.push_back(s.memory);
  return memory;
}

step_terms terms_of_dearest(const std::vector<chunk_seconds>& seconds, const step_prediction& out) {
  const auto dearest = static_cast<std::uint32_t>(std::ranges::max_element(out.stages, {}, &stage_prediction::work_s) -
                                                  out.stages.begin());
  step_terms t;
  for (std::uint32_t c = 0; c < out.order.chunks; ++c)
    for (const auto& [name, term] : step_term_names)
      t.*term += seconds[out.order.virtual_stage(dearest, c)].terms.*term * out.order.micro_batches;
  t.bubble = out.run.makespan - out.stages[dearest].work_s;
  return t;
}

void fill_rates(const training_plan& p, const cluster& on, step_prediction& out) {
  const double device_s = out.step_s * p.extents.size();
  out.tokens_per_s = static_cast<double>(p.global_batch * p.model.seq_len) / out.step_s;
  out.flops_per_device_per_s = model_flops(p) / device_s;
  out.hardware_flops_per_device_per_s = (model_flops(p) + recomputed_flops(p)) / device_s;
  out.mfu = out.flops_per_device_per_s / on.peak_flops(p.numbers);
}

}  // namespace

std::int64_t step_prediction::peak_bytes() const { return stages[fullest_stage()].memory.bytes(); }

std::uint32_t step_prediction::fullest_stage() const {
  const auto bytes = [](const stage_prediction& s) { return s.memory.bytes(); };
  return static_cast<std::uint32_t>(std::ranges::max_element(stages, {}, bytes) - stages.begin());
}

result<schedule> schedule_of(const training_plan& p) {
  return make_schedule(p.schedule, {p.extents.stages, p.micro_batches(), p.chunks});
}

result<placement> place_plan(const training_plan& p, const cluster& on) {
  TROUPE_TRY(const auto chunks, cut_model(p));
  TROUPE_TRY(const auto order, schedule_of(p));
  const auto nodes = on.nodes == 0 ? std::max(nodes_needed(p.extents, on.devices_per_node), 1U) : on.nodes;
  return place(p.extents, {nodes, on.devices_per_node}, traffic_of(p, chunks, order));
}

result<step_prediction> predict_step(const training_plan& p, const cluster& on, const placement& where) {
  TROUPE_TRY(const auto chunks, cut_model(p));
  TROUPE_TRY(auto order, schedule_of(p));
  return predict_step(p, on, where, chunks, std::move(order));
}

result<step_prediction> predict_step(const training_plan& p, const cluster& on, const placement& where,
                                     const std::vector<chunk_costs>& chunks, schedule order) {
  step_prediction out;
  out.order = std::move(order);
  const laid_out_plan l{p, on, where, chunks, out.order};
  std::vector<chunk_seconds> seconds;
  for (std::uint32_t v = 0; v < out.order.virtual_stages(); ++v)
    seconds.push_back(seconds_of(p, on, chunks[v], messages_of(out.order, v)));
  replica_runs runs(l, seconds);
  TROUPE_CHECK(runs.run_all());
  out.run = runs.take_slowest();
  fill_stages(l, out);
  out.terms = terms_of_dearest(seconds, out);
  const auto end = gradients_end(l, runs.gradients());
  out.terms.gradients = end - out.run.makespan;
  out.terms.update = update_s(l, memory_of(out));
  out.step_s = end + out.terms.update;
  fill_rates(p, on, out);
  return out;
}

}  // namespace troupe::planning
