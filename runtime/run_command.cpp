#include "runtime/run_command.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <boost/asio/signal_set.hpp>
#include <cstdlib>

#include "runtime/assembly.hpp"
#include "runtime/forgotten_segments.hpp"
#include "runtime/host_checks.hpp"
#include "runtime/progress.hpp"
#include "runtime/run_directory.hpp"
#include "runtime/run_log.hpp"
#include "runtime/worker_launcher.hpp"

namespace troupe {

namespace {

int refuse(const error& why) {
  fmt::print(stderr, "troupe: {}\n", why.where);
  return 2;
}

void write_stderr(std::string_view text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

void say_what_is_padded(const config& c) {
  const auto rows = (c.model.vocab + c.parallel.tp - 1) / c.parallel.tp * c.parallel.tp;
  if (c.model.kind == "gpt" && rows != c.model.vocab)
    fmt::print(stderr,
               "model.vocab = {} is padded to {} so that {} tensor shards share it evenly; the {} extra rows "
               "stay zero\n",
               c.model.vocab, rows, c.parallel.tp, rows - c.model.vocab);
}

// Remembers the first and the last loss for the closing words; passes everything on.
class closing_words final : public run_listener {
public:
  explicit closing_words(run_listener& next) : next_(next) {}
  void step_committed(const step_report& r) override {
    if (r.step == 0) first_ = r.loss;
    last_ = r.loss;
    ++steps_;
    next_.step_committed(r);
  }
  void event(const run_event& e) override { next_.event(e); }

  void print(const std::string& directory, bool has_trace) const {
    if (steps_ == 0) return;
    fmt::print(stderr, "loss {:.4f} after {} steps (it began at {:.4f})\nrun directory: {}\n", last_, steps_, first_,
               directory);
    // The whole line after "next: " can be pasted into a shell.
    const auto program = for_shell(::program_invocation_name);
    if (has_trace)
      fmt::print(stderr, "next: {} trace show {}  # draws the timeline of the last steps\n", program,
                 for_shell(directory));
    else
      fmt::print(stderr, "next: {} run {}  # the same run again, into a new folder\n", program,
                 for_shell(directory + "/config.toml"));
  }

private:
  static std::string for_shell(const std::string& word) {
    if (word.find_first_of(" \t\n'\"\\$`*?[](){}<>|&;#~!") == word.npos) return word;
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + "'";
  }
  run_listener& next_;
  double first_ = 0, last_ = 0;
  std::uint64_t steps_ = 0;
};

// First signal: end the run in good order. Second: end everything now.
class interruption {
public:
  interruption(event_loop& loop, cluster_head& head, worker_launcher& launcher)
      : signals_(loop.context(), SIGINT, SIGTERM, SIGUSR1), head_(head), launcher_(launcher) {
    wait();
  }

private:
  void wait() {
    signals_.async_wait([this](const boost::system::error_code& e, int signal) {
      if (e) return;
      if (seen_++ > 0) {
        launcher_.signal_all(SIGKILL);
        ::_exit(signal == SIGINT ? 130 : 143);
      }
      head_.interrupt(signal);
      wait();
    });
  }
  boost::asio::signal_set signals_;
  cluster_head& head_;
  worker_launcher& launcher_;
  int seen_ = 0;
};

// Where the tensor shards of each stage of each replica meet; nothing where a stage has one shard.
struct tensor_groups {
  std::vector<thread_group> threads;
  std::vector<host_group_segment> segments;

  static result<tensor_groups> make(const mesh& extents, bool processes) {
    // Address space for a shard's tensors; pages are taken as they are touched.
    constexpr std::size_t arena = std::size_t{64} << 30;
    tensor_groups groups;
    for (std::uint32_t i = 0; extents.shards > 1 && i < extents.groups(); ++i) {
      if (!processes) {
        groups.threads.emplace_back(extents.shards);
        continue;
      }
      TROUPE_TRY(auto segment, host_group_segment::make(extents.shards, arena));
      groups.segments.push_back(std::move(segment));
    }
    return groups;
  }
  // [rank]
  std::vector<int> descriptors(const mesh& extents) const {
    std::vector<int> of_rank;
    for (std::uint32_t rank = 0; !segments.empty() && rank < extents.size(); ++rank)
      of_rank.push_back(segments[extents.group_of(extents.shard_at(rank))].descriptor());
    return of_rank;
  }
};

}  // namespace

int run_command(const run_request& request, const std::vector<model_definition>& models) {
  auto loaded = load_config(request.config_path, request.overrides);
  if (!loaded) return refuse(loaded.error());
  const auto& c = loaded->values;
  auto plan = plan_model(c, models);
  if (!plan) return refuse(plan.error());
  if (auto fits = check_host(c); !fits) return refuse(fits.error());
  auto directory = run_directory::create(request.run_directory, std::chrono::system_clock::now());
  if (!directory) return refuse(directory.error());
  if (auto written = directory->write_config(to_toml(c)); !written) return refuse(written.error());

  auto options = terminal_options(STDERR_FILENO);
  options.steps = static_cast<std::uint64_t>(c.train.steps);
  options.print_every = c.observe.print_every;
  progress terminal(options, write_stderr);
  run_log log(*directory, terminal, static_cast<std::size_t>(c.observe.trace_steps));
  closing_words words(log);
  say_what_is_padded(c);

  if (c.parallel.workers == "processes") remove_forgotten_segments();  // of a run whose head was killed
  const auto extents = mesh_of(c);
  const bool processes = c.parallel.workers == "processes";
  auto groups = tensor_groups::make(extents, processes);
  if (!groups) return refuse(groups.error());
  auto page = progress_page::make(extents.size());
  if (!page) return refuse(page.error());
  const auto key = make_run_key();
  event_loop loop("troupe head");
  in_process_exchange exchange;
  worker_launcher launcher(loop);
  port_source ports{&exchange, &loop, key, &groups->threads, -1};
  auto settings = cluster_of(c, *plan, key);
  auto head = cluster_head::start(std::move(settings), words, page->cells(), processes ? &launcher : nullptr,
                                  make_shard_factory(models, ports));
  if (!head) return refuse(head.error());
  launcher.configure({"127.0.0.1", to_hex(key), (*head)->port(), directory->path().string(),
                      c.parallel.threads_per_shard, page->descriptor(), groups->descriptors(extents)});
  run_outcome outcome;
  {
    interruption on_signal(loop, **head, launcher);
    (*head)->begin();
    outcome = (*head)->wait();
  }
  if (processes) remove_forgotten_segments();
  if (outcome.exit_code == 2) return refuse({errc::invalid_argument, outcome.text});
  words.print(directory->path().string(), c.observe.trace_steps > 0);
  return outcome.exit_code;
}

}  // namespace troupe
