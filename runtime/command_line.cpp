#include "runtime/command_line.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "runtime/config.hpp"
#include "runtime/nearest_name.hpp"

namespace troupe {
namespace {

/// A failure of the command line: one sentence, with what would do.
usage_request wrong(const std::string& text) { return {2, fmt::format("troupe: {}\n", text)}; }

/// The grammar; options write into the requests.
class grammar {
public:
  grammar() {
    app.set_version_flag("--version", "troupe " TROUPE_VERSION, "print the version and exit");
    app.require_subcommand(1);
    add_run();
    add_schedule();
    add_simulate();
    add_plan();
    add_doctor();
    add_trace();
    add_worker();
  }

  CLI::App app{"Troupe trains models that do not fit one device: each pipeline stage is an actor.", "troupe"};
  run_request run;
  schedule_request schedule;
  simulate_request simulate;
  simulate_config_request simulate_config;
  plan_request plan;
  doctor_request doctor;
  trace_show_request trace_show;
  worker_request worker;
  bool help_config = false;
  std::string workers;
  std::int64_t grace_ms = -1;

private:
  void add_run() {
    auto* c = app.add_subcommand("run", "train a model on this machine");
    c->add_option("CONFIG", run.config_path, "TOML file of settings");
    add_set(c, run.overrides);
    c->add_option("--run-dir", run.run_directory, "new or empty folder for what the run writes [runs/<time>-<id>]")
        ->type_name("DIR");
    c->add_option("--workers", workers, "a process or a thread for each shard: parallel.workers")
        ->check(CLI::IsMember({"processes", "threads"}));
    c->add_option("--grace", grace_ms, "time to end in after a signal: recovery.grace_ms")
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{86'400'000}))
        ->type_name("MS");
    c->add_flag("--dry-run", run.dry_run, "print the settings and where each came from, and stop");
    c->add_flag("--help-config", help_config, "print every key with its default, unit and meaning, and stop");
  }

  static void add_set(CLI::App* c, std::vector<std::string>& overrides) {
    c->add_option("--set", overrides, "section.key=value, stronger than the file; may be repeated")
        ->allow_extra_args(false)
        ->type_name("KEY=VALUE");
  }

  template <class Request>
  static void add_shape(CLI::App* c, Request& request) {
    c->add_option("--stages", request.stages, "pipeline stages")->check(CLI::Range(1, 65'535))->type_name("P");
    c->add_option("--microbatches", request.micro_batches, "micro-batches of a step")
        ->check(CLI::Range(1, 1'000'000))
        ->type_name("M");
    c->add_option("--chunks", request.chunks, "chunks of layers a stage has [as many as the schedule is made for]")
        ->check(CLI::Range(1, 1'024))
        ->type_name("V");
  }

  void add_schedule() {
    auto* c = app.add_subcommand("schedule", "print the order of forwards and backwards on each stage");
    c->add_option("NAME", schedule.name, "gpipe, 1f1b, zb-h1, …")->required();
    add_shape(c, schedule);
    for (const auto* name : {"--stages", "--microbatches"}) c->get_option(name)->required();
    auto* json = c->add_flag("--json", schedule.json, "one JSON object");
    c->add_option("--format", schedule.format, "how to print it; svg draws it in unit times")
        ->check(CLI::IsMember({"text", "csv", "svg"}))
        ->excludes(json);
  }

  // Either a config, or a schedule with its shape and costs.
  void add_simulate() {
    auto* c = app.add_subcommand("simulate", "run a step in virtual time: of a config, or of a schedule");
    auto* config = c->add_option("CONFIG", simulate_config.config_path, "TOML file of settings");
    add_set(c, simulate_config.overrides);
    c->add_option("--trace", simulate_config.trace, "with CONFIG: write the step as a run writes its trace.json")
        ->type_name("FILE");
    auto* schedule_name = c->add_option("--schedule", simulate.schedule, "gpipe, 1f1b, zb-h1, …")->type_name("NAME");
    add_shape(c, simulate);
    auto* cost = c->add_option(
        "--cost", simulate.cost,
        "ms of one micro-batch through one stage's layers: forward, gradient of the input, of the weights; and "
        "of a hop between stages [f=1,bi=1,bw=1,hop=0]");
    cost->type_name("f=…,bi=…,bw=…,hop=…");
    c->add_flag("--json", simulate.json, "one JSON object");
    for (auto* option :
         {schedule_name, c->get_option("--stages"), c->get_option("--microbatches"), c->get_option("--chunks"), cost})
      option->excludes(config);
  }

  void add_plan() {
    auto* c = app.add_subcommand("plan", "say what each shard will hold and where, or look for the fastest layout");
    c->add_option("CONFIG", plan.config_path, "TOML file of settings")->required();
    add_set(c, plan.overrides);
    c->add_flag("--search", plan.search, "rank layouts for the cluster by predicted tokens per second");
    c->add_flag("--json", plan.json, "one JSON object");
  }

  void add_doctor() {
    auto* c = app.add_subcommand("doctor", "say what this machine offers and lacks");
    c->add_flag("--json", doctor.json, "one JSON object");
  }

  void add_trace() {
    auto* c = app.add_subcommand("trace", "look at the trace of a run")->require_subcommand(1);
    auto* show = c->add_subcommand("show", "draw the last steps of a run as one HTML file");
    show->add_option("RUN_DIR", trace_show.run_directory, "the run's folder")->required();
    show->add_option("--output", trace_show.output, "the file to write [RUN_DIR/trace.html]")->type_name("FILE");
  }

  void add_worker() {
    auto* c = app.add_subcommand("worker", "")->group("");  // no group: hidden from the help
    c->add_option("--head-address", worker.head_address)->required();
    c->add_option("--head-port", worker.head_port)->required();
    c->add_option("--index", worker.index)->required();
    c->add_option("--cells", worker.cells_descriptor)->required();
    c->add_option("--group", worker.group_descriptor);
  }
};

std::vector<std::string> visible_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* c : app.get_subcommands([](const CLI::App* a) { return !a->get_group().empty(); }))
    names.push_back(c->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* o : app.get_options())
    for (const auto& name : o->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string_view nearest(std::string_view name, const std::vector<std::string>& of) {
  return nearest_name(name, {of.begin(), of.end()});
}

/// The first word that no command or option answers to, and what was likely meant; empty when each has a meaning.
std::string unknown_word(CLI::App& root, const std::vector<std::string>& words) {
  auto* app = &root;
  for (const auto& word : words) {
    if (word == "--") return "";
    const auto option = word.substr(0, word.find('='));
    if (word.starts_with("--") && !app->get_option_no_throw(option))
      return fmt::format("unknown option {}; did you mean {}?", option, nearest(option, option_names(*app)));
    const auto below = app->get_subcommands([](CLI::App*) { return true; });
    if (word.starts_with('-') || below.empty()) continue;
    const auto next = std::ranges::find_if(below, [&](const auto* c) { return c->get_name() == word; });
    if (next == below.end())
      return fmt::format("unknown command '{}'; did you mean '{}'?", word, nearest(word, visible_commands(*app)));
    app = *next;
  }
  return "";
}

command_request run_of(grammar& g) {
  if (g.help_config) return usage_request{0, config_help()};
  if (g.run.config_path.empty())
    return wrong("troupe run needs a CONFIG, such as: troupe run examples/gpt/default.toml");
  if (!g.workers.empty()) g.run.overrides.push_back("parallel.workers=" + g.workers);
  if (g.grace_ms >= 0) g.run.overrides.push_back(fmt::format("recovery.grace_ms={}", g.grace_ms));
  return g.run;
}

command_request simulate_of(grammar& g) {
  if (!g.simulate_config.config_path.empty()) {
    g.simulate_config.json = g.simulate.json;
    return g.simulate_config;
  }
  const auto& c = *g.app.get_subcommand("simulate");
  for (const auto* name : {"--schedule", "--stages", "--microbatches"})
    if (c.count(name) == 0)
      return wrong(fmt::format("troupe simulate needs a CONFIG, or a schedule: {} is required", name));
  for (const auto* name : {"--set", "--trace"})
    if (c.count(name) > 0) return wrong(fmt::format("{} goes with a CONFIG", name));
  return g.simulate;
}

command_request chosen(grammar& g) {
  const auto name = g.app.get_subcommands().front()->get_name();
  if (name == "run") return run_of(g);
  if (name == "schedule") return g.schedule;
  if (name == "simulate") return simulate_of(g);
  if (name == "plan") return g.plan;
  if (name == "doctor") return g.doctor;
  if (name == "trace") return g.trace_show;
  return g.worker;
}

}  // namespace

// CLI11 tells everything that is no request by exceptions, which end here.
command_request parse_command_line(int argc, const char* const* argv) {
  const std::vector<std::string> words(argv + 1, argv + std::max(argc, 1));
  grammar g;
  if (words.empty()) return usage_request{2, g.app.help()};
  if (words.size() == 1 && words.front() == "help") return usage_request{0, g.app.help()};
  if (const auto unknown = unknown_word(g.app, words); !unknown.empty()) return wrong(unknown);
  try {
    g.app.parse(argc, argv);
    return chosen(g);
  } catch (const CLI::Success& shown) {  // --help, --version
    std::ostringstream text;
    g.app.exit(shown, text, text);
    return usage_request{0, text.str()};
  } catch (const CLI::ParseError& e) {
    return wrong(fmt::format("{}; 'troupe --help' shows what there is", e.what()));
  }
}

}  // namespace troupe
