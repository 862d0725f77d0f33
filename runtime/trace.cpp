#include "runtime/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

namespace troupe {
namespace {

using json = nlohmann::ordered_json;

/// One slice on a compute row, with what it is about.
struct slice {
  std::uint64_t step;
  std::optional<action> what;  // nothing: the optimizer's update
  std::int64_t start_ns, end_ns;
};

using rows = std::map<shard_id, std::vector<slice>>;

rows collect(const std::deque<step_report>& steps) {
  rows by_shard;
  for (const auto& report : steps)
    for (const auto& line : report.timelines) {
      auto& row = by_shard[line.shard];
      // The update that a step begins with belongs to the step before.
      if (line.update.end_ns != 0 && report.step > 0)
        row.push_back({report.step - 1, std::nullopt, line.update.start_ns, line.update.end_ns});
      for (const auto& a : line.actions) row.push_back({report.step, a.what, a.start_ns, a.end_ns});
    }
  for (auto& [shard, row] : by_shard) {
    auto free_from = std::numeric_limits<std::int64_t>::min();
    for (auto& s : row) {
      s.start_ns = std::max(s.start_ns, free_from);
      free_from = s.end_ns = std::max(s.end_ns, s.start_ns);
    }
  }
  return by_shard;
}

std::int64_t first_start(const rows& by_shard) {
  auto first = std::numeric_limits<std::int64_t>::max();
  for (const auto& [shard, row] : by_shard)
    if (!row.empty()) first = std::min(first, row.front().start_ns);
  return first;
}

std::string name_of(const slice& s) { return s.what ? to_string(*s.what) : "update"; }

/// Builds the list of events; knows the numbers of rows and arrows.
class event_list {
public:
  explicit event_list(const rows& by_shard) : rows_(by_shard), zero_ns_(first_start(by_shard)) {
    int row = 0;
    for (const auto& [shard, slices] : rows_) row_[shard] = row += 2;
    add_names();
    for (const auto& [shard, slices] : rows_) add_slices(shard, slices);
    add_arrows();
  }
  json take() && { return std::move(events_); }

private:
  // A shard's own row is computing; the one after it is waiting.
  int compute_row(shard_id shard) const { return row_.at(shard); }
  int waiting_row(shard_id shard) const { return row_.at(shard) + 1; }
  double us(std::int64_t ns) const { return static_cast<double>(ns - zero_ns_) / 1000; }

  void add_name(std::string_view what, int pid, int tid, json args) {
    events_.push_back({{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", std::move(args)}});
  }

  void add_names() {
    for (const auto& [shard, slices] : rows_) {
      const int compute = compute_row(shard), waiting = waiting_row(shard);
      add_name("process_name", shard.replica, 0, {{"name", fmt::format("replica {}", shard.replica)}});
      add_name("thread_name", shard.replica, compute, {{"name", to_string(shard)}});
      add_name("thread_sort_index", shard.replica, compute, {{"sort_index", compute}});
      add_name("thread_name", shard.replica, waiting, {{"name", to_string(shard) + " waiting"}});
      add_name("thread_sort_index", shard.replica, waiting, {{"sort_index", waiting}});
    }
  }

  void add_slices(shard_id shard, const std::vector<slice>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto& s = row[i];
      if (i > 0 && s.start_ns > row[i - 1].end_ns) add_wait(shard, row[i - 1].end_ns, s);
      json args = {{"step", s.step}, {"stage", shard.stage}, {"shard", shard.shard}};
      if (s.what) {
        args["micro_batch"] = s.what->micro_batch;
        args["chunk"] = s.what->chunk;
      }
      add_slice("compute", name_of(s), shard.replica, compute_row(shard), s.start_ns, s.end_ns, std::move(args));
    }
  }

  void add_wait(shard_id shard, std::int64_t from_ns, const slice& next) {
    add_slice("wait", "wait", shard.replica, waiting_row(shard), from_ns, next.start_ns,
              {{"step", next.step}, {"for", name_of(next)}});
  }

  void add_slice(std::string_view category, const std::string& name, int pid, int tid, std::int64_t from_ns,
                 std::int64_t to_ns, json args) {
    events_.push_back({{"ph", "X"},
                       {"cat", category},
                       {"name", name},
                       {"pid", pid},
                       {"tid", tid},
                       {"ts", us(from_ns)},
                       {"dur", static_cast<double>(to_ns - from_ns) / 1000},
                       {"args", std::move(args)}});
  }

  // Activations go to the next stage, gradients of the input to the one before.
  void add_arrows() {
    using key = std::tuple<shard_id, bool, std::uint64_t, std::uint32_t, std::uint16_t>;
    std::map<key, const slice*> by_message;
    const auto is_forward = [](const slice& s) { return s.what->what == pass::forward; };
    for (const auto& [shard, row] : rows_)
      for (const auto& s : row)
        if (s.what && s.what->what != pass::backward_weight)
          by_message[{shard, is_forward(s), s.step, s.what->micro_batch, s.what->chunk}] = &s;
    for (const auto& [from_key, from] : by_message) {
      auto to_key = from_key;
      auto& to_shard = std::get<shard_id>(to_key);
      if (!is_forward(*from) && to_shard.stage == 0) continue;
      to_shard.stage = static_cast<std::uint16_t>(to_shard.stage + (is_forward(*from) ? 1 : -1));
      const auto to = by_message.find(to_key);
      if (to != by_message.end()) add_arrow(std::get<shard_id>(from_key), *from, to_shard, *to->second);
    }
  }

  void add_arrow(shard_id source, const slice& from, shard_id target, const slice& to) {
    const auto name = from.what->what == pass::forward ? "activation" : "gradient";
    // An arrow is bound to the slice that encloses it, and the last nanosecond is no longer inside. A message leaves
    // within its slice, so that its receiver may begin before the slice ends.
    const auto leave_ns = std::max(from.start_ns, std::min(from.end_ns - 1, to.start_ns));
    const int id = ++arrows_;
    events_.push_back({{"ph", "s"},
                       {"cat", "message"},
                       {"name", name},
                       {"id", id},
                       {"pid", source.replica},
                       {"tid", compute_row(source)},
                       {"ts", us(leave_ns)}});
    events_.push_back({{"ph", "f"},
                       {"bp", "e"},
                       {"cat", "message"},
                       {"name", name},
                       {"id", id},
                       {"pid", target.replica},
                       {"tid", compute_row(target)},
                       {"ts", us(to.start_ns)}});
  }

  const rows& rows_;
  std::int64_t zero_ns_;
  std::map<shard_id, int> row_;
  int arrows_ = 0;
  json events_ = json::array();
};

// JSON has no inf and nan; a loss may be either.
json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json step_figures(const std::deque<step_report>& steps) {
  auto figures = json::array();
  for (const auto& r : steps)
    figures.push_back({{"step", r.step},
                       {"loss", number(r.loss)},
                       {"bubble", number(r.bubble)},
                       {"bubble_ideal", number(r.bubble_ideal)}});
  return figures;
}

double number_or_nan(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

std::int64_t ns(const json& us) { return std::llround(us.get<double>() * 1000); }

pass pass_named(char letter) {
  const auto place = std::string_view("FBIW").find(letter);
  if (place == std::string_view::npos) throw std::invalid_argument("a slice of an unknown kind");
  return static_cast<pass>(place);
}

/// Collects slices back into the reports they came from.
class report_builder {
public:
  void add_figures(const json& f) {
    auto& r = reports_[f.at("step").get<std::uint64_t>()];
    r.step = f.at("step").get<std::uint64_t>();
    r.loss = number_or_nan(f.at("loss"));
    r.bubble = number_or_nan(f.at("bubble"));
    r.bubble_ideal = number_or_nan(f.at("bubble_ideal"));
  }

  void add_slice(const json& e) {
    const auto& args = e.at("args");
    const auto step = args.at("step").get<std::uint64_t>();
    const shard_id shard{e.at("pid").get<std::uint16_t>(), args.at("stage").get<std::uint16_t>(),
                         args.at("shard").get<std::uint16_t>()};
    const auto start = ns(e.at("ts")), end = start + ns(e.at("dur"));
    const auto name = e.at("name").get<std::string>();
    if (name == "update") {
      line_of(step + 1, shard).update = {{}, start, end};
    } else {
      const action what{pass_named(name.empty() ? ' ' : name[0]), args.at("micro_batch").get<std::uint32_t>(),
                        args.at("chunk").get<std::uint16_t>()};
      line_of(step, shard).actions.push_back({what, start, end});
    }
  }

  std::deque<step_report> take() && {
    std::deque<step_report> steps;
    for (auto& [step, report] : reports_) {
      for (auto& [shard, line] : lines_[step]) report.timelines.push_back(std::move(line));
      steps.push_back(std::move(report));
    }
    return steps;
  }

private:
  shard_timeline& line_of(std::uint64_t step, shard_id shard) {
    auto& line = lines_[step][shard];
    line.shard = shard;
    return line;
  }

  std::map<std::uint64_t, step_report> reports_;
  std::map<std::uint64_t, std::map<shard_id, shard_timeline>> lines_;
};

}  // namespace

std::string trace_json(const std::deque<step_report>& steps) {
  const auto by_shard = collect(steps);
  const json trace = {{"displayTimeUnit", "ms"},
                      {"otherData", {{"steps", step_figures(steps)}}},
                      {"traceEvents", event_list(by_shard).take()}};
  return trace.dump(0);
}

// The library reports what is missing by exceptions, which end here.
result<std::deque<step_report>> read_trace(std::string_view text) {
  try {
    const auto trace = json::parse(text);
    report_builder builder;
    for (const auto& figures : trace.at("otherData").at("steps")) builder.add_figures(figures);
    for (const auto& event : trace.at("traceEvents"))
      if (event.at("ph") == "X" && event.at("cat") == "compute") builder.add_slice(event);
    return std::move(builder).take();
  } catch (const std::exception& e) {
    return invalid(fmt::format("not a trace that Troupe wrote: {}", e.what()));
  }
}

}  // namespace troupe
