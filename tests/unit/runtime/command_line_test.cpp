#include "runtime/command_line.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.hpp"
#include "runtime/commands.hpp"
#include "runtime/trace.hpp"
#include "sample_report.hpp"

using namespace troupe;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

command_request parse(std::vector<const char*> words) {
  words.insert(words.begin(), "troupe");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

/// The message of a command line that is wrong.
std::string complaint(std::vector<const char*> words) {
  const auto parsed = parse(std::move(words));
  const auto* usage = std::get_if<usage_request>(&parsed);
  if (!usage) return "it was accepted";
  CHECK(usage->exit_code == 2);
  const auto line = usage->text.substr(0, usage->text.find('\n'));
  return line.starts_with("troupe: ") ? line.substr(8) : line;
}

struct outcome {
  int code;
  std::string out, err;
};

template <class Request>
outcome run(int (*command)(const Request&, std::ostream&, std::ostream&), const Request& request) {
  std::ostringstream out, err;
  const int code = command(request, out, err);
  return {code, out.str(), err.str()};
}

}  // namespace

TEST_CASE("run takes a config, overrides, and flags that stand for keys", "[command_line]") {
  const auto parsed = parse({"run", "a.toml", "--set", "train.steps=5", "--set=parallel.split=[2,4]", "--run-dir",
                             "out", "--workers", "threads", "--grace", "500"});
  const auto& run = std::get<run_request>(parsed);
  CHECK(run.config_path == "a.toml");
  CHECK(run.overrides == std::vector<std::string>{"train.steps=5", "parallel.split=[2,4]", "parallel.workers=threads",
                                                  "recovery.grace_ms=500"});
  CHECK(run.run_directory == "out");
  CHECK_FALSE(run.dry_run);
  CHECK(std::get<run_request>(parse({"run", "--set", "train.steps=5", "a.toml", "--dry-run"})).dry_run);
}

TEST_CASE("schedule, doctor, trace show and worker are requests of their own", "[command_line]") {
  const auto schedule =
      std::get<schedule_request>(parse({"schedule", "1f1b", "--stages", "4", "--microbatches=8", "--json"}));
  CHECK(schedule.name == "1f1b");
  CHECK(schedule.stages == 4);
  CHECK(schedule.micro_batches == 8);
  CHECK(schedule.json);
  CHECK(schedule.chunks == 0);  // the schedule's own
  CHECK(std::get<schedule_request>(parse({"schedule", "1f1b", "--stages", "4", "--microbatches=8", "--format", "svg"}))
            .format == "svg");
  const auto simulate =
      std::get<simulate_request>(parse({"simulate", "--schedule", "interleaved", "--stages", "4", "--microbatches", "8",
                                        "--chunks", "3", "--cost", "f=1,bi=1,bw=1,hop=0.5", "--json"}));
  CHECK(simulate.schedule == "interleaved");
  CHECK(simulate.stages == 4);
  CHECK(simulate.micro_batches == 8);
  CHECK(simulate.chunks == 3);
  CHECK(simulate.cost == "f=1,bi=1,bw=1,hop=0.5");
  CHECK(simulate.json);
  const auto of_config = std::get<simulate_config_request>(
      parse({"simulate", "a.toml", "--set", "parallel.pp=4", "--json", "--trace", "t.json"}));
  CHECK(of_config.config_path == "a.toml");
  CHECK(of_config.overrides == std::vector<std::string>{"parallel.pp=4"});
  CHECK(of_config.json);
  CHECK(of_config.trace == "t.json");
  const auto plan = std::get<plan_request>(parse({"plan", "a.toml", "--search", "--set", "cluster.nodes=4"}));
  CHECK(plan.config_path == "a.toml");
  CHECK(plan.overrides == std::vector<std::string>{"cluster.nodes=4"});
  CHECK(plan.search);
  CHECK_FALSE(plan.json);
  CHECK_FALSE(std::get<doctor_request>(parse({"doctor"})).json);
  CHECK(std::get<trace_show_request>(parse({"trace", "show", "runs/x"})).run_directory == "runs/x");
  const auto worker = std::get<worker_request>(
      parse({"worker", "--head-address", "127.0.0.1", "--head-port", "4000", "--index", "2", "--cells", "5"}));
  CHECK(worker.head_port == 4000);
  CHECK(worker.index == 2);
}

TEST_CASE("help, version and the keys go to stdout with exit code 0", "[command_line]") {
  const auto text = [](std::vector<const char*> words) {
    const auto usage = std::get<usage_request>(parse(std::move(words)));
    CHECK(usage.exit_code == 0);
    return usage.text;
  };
  CHECK(text({"--version"}).starts_with("troupe 0."));
  CHECK_THAT(text({"--help"}), Contains("schedule") && Contains("doctor") && !Contains("worker "));
  CHECK(text({"help"}) == text({"--help"}));
  CHECK_THAT(text({"run", "--help"}), Contains("--set KEY=VALUE") && Contains("--dry-run"));
  CHECK_THAT(text({"run", "--help-config"}), Contains("[train]") && Contains("global_batch = 16"));
}

TEST_CASE("a wrong word names the nearest right one", "[command_line]") {
  CHECK(complaint({"rnu", "a.toml"}) == "unknown command 'rnu'; did you mean 'run'?");
  CHECK(complaint({"wroker"}) != "unknown command 'wroker'; did you mean 'worker'?");  // not for people
  CHECK(complaint({"trace", "shwo", "x"}) == "unknown command 'shwo'; did you mean 'show'?");
  CHECK(complaint({"run", "a.toml", "--rundir", "x"}) == "unknown option --rundir; did you mean --run-dir?");
  CHECK(complaint({"doctor", "--jsno"}) == "unknown option --jsno; did you mean --json?");
}

TEST_CASE("a command that lacks something or has too much of it is refused in a line", "[command_line]") {
  CHECK(complaint({"run"}) == "troupe run needs a CONFIG, such as: troupe run examples/gpt/default.toml");
  CHECK_THAT(complaint({"schedule", "1f1b", "--stages", "4"}), Contains("--microbatches is required"));
  CHECK_THAT(complaint({"schedule", "1f1b", "--stages", "0", "--microbatches", "2"}), Contains("--stages"));
  CHECK_THAT(complaint({"schedule", "1f1b", "--stages", "four", "--microbatches", "2"}), Contains("--stages"));
  CHECK_THAT(complaint({"schedule", "1f1b", "--stages", "2", "--microbatches", "2", "--chunks", "0"}),
             Contains("--chunks"));
  CHECK_THAT(complaint({"schedule", "1f1b", "--stages", "2", "--microbatches", "2", "--format", "png"}),
             Contains("--format"));
  CHECK_THAT(complaint({"schedule", "1f1b", "--stages", "2", "--microbatches", "2", "--format", "csv", "--json"}),
             Contains("--json"));
  CHECK_THAT(complaint({"simulate", "--stages", "4", "--microbatches", "8"}), Contains("--schedule is required"));
  CHECK_THAT(complaint({"simulate", "--schedule", "1f1b", "--microbatches", "8"}), Contains("--stages is required"));
  CHECK_THAT(complaint({"simulate"}), Contains("needs a CONFIG, or a schedule"));
  CHECK_THAT(complaint({"simulate", "a.toml", "--stages", "4"}), Contains("--stages") && Contains("CONFIG"));
  CHECK(complaint({"simulate", "--schedule", "1f1b", "--stages", "4", "--microbatches", "8", "--trace", "t.json"}) ==
        "--trace goes with a CONFIG");
  CHECK_THAT(complaint({"plan"}), Contains("CONFIG is required"));
  CHECK_THAT(complaint({"run", "a.toml", "--workers", "fibers"}), Contains("--workers") && Contains("threads"));
  CHECK_THAT(complaint({"run", "a.toml", "--grace", "-5"}), Contains("--grace"));
  CHECK_THAT(complaint({"doctor", "now"}), Contains("now"));
  CHECK_THAT(complaint({}), Contains("Troupe"));
  CHECK_THAT(complaint({"--json"}), Contains("unknown option --json"));
}

TEST_CASE("schedule prints the order of each stage, or one JSON object", "[schedule_command]") {
  const auto text = run(schedule_command, schedule_request{"1f1b", 2, 2, false});
  CHECK(text.code == 0);
  CHECK(text.out == "s0   F0 F1 B0 B1\ns1   F0 B0 F1 B1\n");
  CHECK_THAT(text.err, Contains("ideal bubble 33.3 %") && Contains("at most: 2 1"));
  const auto json = run(schedule_command, schedule_request{"gpipe", 2, 3, true});
  const auto object = nlohmann::json::parse(json.out);
  CHECK(object["order"][1] == nlohmann::json({"F0", "F1", "F2", "B0", "B1", "B2"}));
  CHECK(object["peak_in_flight"] == nlohmann::json({3, 3}));
  CHECK(object["bubble_ideal"].get<double>() == Approx(0.25));
  CHECK(json.err.empty());
}

TEST_CASE("schedule writes csv and draws svg", "[schedule_command]") {
  schedule_request request{"zb-v", 2, 3};
  request.format = "csv";
  const auto csv = run(schedule_command, request);
  CHECK(csv.code == 0);
  CHECK(csv.out.starts_with("0F0,0F1,0F2,3F0,3I0,3W0,"));
  CHECK_THAT(csv.err, Contains("micro-batches of chunks in flight"));
  request.format = "svg";
  const auto svg = run(schedule_command, request).out;
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK_THAT(svg, Contains("zb-v: 2 stages of 2 chunks, 3 micro-batches"));
  CHECK_THAT(svg, Contains("<title>Ib2 on r0/s1/t0: 0.500 ms</title>"));
  CHECK_THAT(svg, Contains("fill-opacity=\"1.00\"") && Contains("fill-opacity=\"0.55\""));
}

TEST_CASE("simulate tells the times of a schedule as JSON or as a table", "[simulate_command]") {
  const auto json = run(simulate_command, simulate_request{"zb-h2", 4, 8, 0, "f=2,bi=2,bw=2,hop=0", true});
  REQUIRE(json.code == 0);
  CHECK(json.err.empty());
  const auto object = nlohmann::json::parse(json.out);
  CHECK(object["makespan"].get<double>() == Approx(54));
  CHECK(object["span"].get<double>() == Approx(48));
  CHECK(object["bubble_makespan"].get<double>() == Approx(3.0 / 27));
  CHECK(object["bubble_span"].get<double>() == Approx(0).margin(1e-12));
  CHECK(object["peak_in_flight"] == nlohmann::json({7, 7, 7, 7}));
  CHECK(object["order"].size() == 4);
  CHECK(object["order"][3][0] == "F0");
  CHECK(object["order"][3][1] == "I0");
  CHECK(object["order"][3].back() == "W7");
  const auto table = run(simulate_command, simulate_request{"interleaved", 4, 8, 2, ""});
  CHECK(table.code == 0);
  CHECK_THAT(table.out, Contains("4 stages, 2 chunks each, 8 micro-batches; ms: f 1, bi 1, bw 1, hop 0"));
  CHECK_THAT(table.out, Contains("28.500 ms, idle 15.79 %"));
}

TEST_CASE("a cost that is none, or a shape that cannot be, is refused in a line", "[simulate_command]") {
  const auto refusal = [](const simulate_request& request) {
    const auto refused = run(simulate_command, request);
    CHECK(refused.code == 2);
    CHECK(refused.out.empty());
    CHECK(std::count(refused.err.begin(), refused.err.end(), '\n') == 1);
    return refused.err;
  };
  for (const auto* cost : {"f", "f=", "f=x", "f=1x", "f=-1", "f=nan", "f=inf", "f=1e30", "f=1,f=2", "g=1", "f=1,",
                           ",f=1", "f=1;bi=2", "=", "f=0,bi=0,bw=0"})
    CHECK_THAT(refusal({"1f1b", 2, 2, 0, cost}), Contains("troupe: --cost: "));
  CHECK_THAT(refusal({"2f2b", 2, 2, 0, ""}), Contains("no schedule is named '2f2b'"));
  CHECK_THAT(refusal({"1f1b", 2, 2, 3, ""}), Contains("1f1b has 1 chunk a stage, not 3"));
  CHECK(run(simulate_command, simulate_request{"1f1b", 2, 2, 0, "hop=1"}).code == 0);
}

TEST_CASE("an unknown or an endless schedule is refused", "[schedule_command]") {
  const auto unknown = run(schedule_command, schedule_request{"2f2b", 2, 2, false});
  CHECK(unknown.code == 2);
  CHECK(unknown.out.empty());
  CHECK_THAT(unknown.err, Contains("2f2b") && Contains("1f1b"));
  CHECK(run(schedule_command, schedule_request{"gpipe", 65'535, 1'000'000, false}).code == 2);
}

TEST_CASE("a dry run prints each setting with its origin, or the config's error", "[dry_run]") {
  const auto fine = run(dry_run_command, run_request{"", {"train.steps=5"}, "", true});
  CHECK(fine.code == 0);
  CHECK_THAT(fine.out, Contains("train.steps") && Contains("--set"));
  CHECK(std::count(fine.out.begin(), fine.out.end(), '\n') > 30);
  const auto bad = run(dry_run_command, run_request{"", {"train.steps=0"}, "", true});
  CHECK(bad.code == 2);
  CHECK(bad.out.empty());
  CHECK_THAT(bad.err, Contains("troupe: --set: train.steps must be"));
}

TEST_CASE("trace show writes a page beside the trace and prints where", "[trace_show]") {
  const auto folder = fs::temp_directory_path() / ("troupe_show_" + std::to_string(getpid()));
  fs::create_directory(folder);
  std::ofstream(folder / "trace.json") << trace_json({sample_report(3)});
  const auto shown = run(trace_show_command, trace_show_request{folder, ""});
  CHECK(shown.code == 0);
  CHECK(shown.out == (folder / "trace.html").string() + "\n");
  CHECK(fs::file_size(folder / "trace.html") > 1'000);
  std::ofstream(folder / "trace.json") << "{";
  const auto broken = run(trace_show_command, trace_show_request{folder, ""});
  CHECK(broken.code == 2);
  CHECK_THAT(broken.err, Contains("trace.json: not a trace that Troupe wrote"));
  CHECK(run(trace_show_command, trace_show_request{"/nowhere", ""}).code == 2);
  fs::remove_all(folder);
}
