// Two things about a pipeline of two stages. Speed: tokens per second over one stage on one core, against the ideal
// 2·m/(m+1), by running the `troupe` program itself, the two in turn. Memory: what shards hold of their micro-batches,
// predicted from the schedule and the layers, and measured.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "report.hpp"
#include "runtime/assembly.hpp"
#include "runtime/builtin_models.hpp"

using namespace troupe;
namespace fs = std::filesystem;

namespace {

constexpr int micro_batches = 8;

// Median tokens per second over the steps after the first, of one run of the program on `cores`.
double tokens_per_second(const std::string& program, const fs::path& folder, const std::string& cores, int pp,
                         const std::string& workers) {
  fs::remove_all(folder);
  const auto defaults = folder.string() + ".toml";
  std::ofstream(defaults) << "# defaults\n";
  const auto set = [](const std::string& what) { return std::string(" --set ") + what; };
  const auto command = "taskset -c " + cores + " " + program + " run " + defaults + " --run-dir " + folder.string() +
                       " --workers " + workers + set("parallel.pp=" + std::to_string(pp)) + set("model.layers=4") +
                       set("model.hidden=512") + set("model.heads=8") + set("model.seq_len=256") +
                       set("train.micro_batch=1") + set("train.global_batch=" + std::to_string(micro_batches)) +
                       set("train.steps=6") + " 2>/dev/null";
  if (std::system(command.c_str()) != 0) return 0;
  std::vector<double> rates;
  std::ifstream in(folder / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto step = nlohmann::json::parse(line);
    if (step["step"] > 0) rates.push_back(step["tokens_per_s"]);
  }
  return bench::median(rates);
}

// What each of two runs of one stage reaches that go on at once, a core each: no pipeline on this machine can do better
// than twice that.
double each_of_two(const std::string& program, const fs::path& folder, const std::string& workers) {
  double rates[2];
  std::thread other([&] { rates[1] = tokens_per_second(program, folder.string() + "-b", "1", 1, workers); });
  rates[0] = tokens_per_second(program, folder, "0", 1, workers);
  other.join();
  fs::remove_all(folder.string() + "-b");
  fs::remove(folder.string() + "-b.toml");
  return (rates[0] + rates[1]) / 2;
}

void speed(bench::report& out, const std::string& program, const std::string& workers) {
  const auto folder = fs::temp_directory_path() / ("troupe-bench-" + std::to_string(::getpid()));
  std::vector<double> ones, twos, ratios, limits;
  for (int pair = 0; pair < 5; ++pair) {
    ones.push_back(tokens_per_second(program, folder, "0", 1, workers));
    twos.push_back(tokens_per_second(program, folder, "0-1", 2, workers));
    ratios.push_back(twos.back() / ones.back());
    if (workers == "processes") limits.push_back(each_of_two(program, folder, workers) / ones.back());
  }
  fs::remove_all(folder);
  fs::remove(folder.string() + ".toml");
  const double ideal = 2.0 * micro_batches / (micro_batches + 1);
  out.add("pp=1, one core, " + workers, bench::median(ones), "tokens/s");
  out.add("pp=2, two cores, m=8, 1f1b, " + workers, bench::median(twos), "tokens/s");
  out.add("pp=2 over pp=1, share of the ideal 2m/(m+1) = 1.778, " + workers, bench::median(ratios) / ideal, "x",
          bench::report::demand::at_least, 0.92);
  if (!limits.empty()) out.add("each of two pp=1 runs at once, over one alone, " + workers, bench::median(limits), "x");
}

struct silent final : run_listener {
  void step_committed(const step_report&) override {}
  void event(const run_event&) override {}
};

run_outcome run_in_threads(const config& c) {
  const auto models = builtin_models();
  auto plan = plan_model(c, models);
  if (!plan) return {2, plan.error().where, {}};
  auto s = cluster_of(c, *plan, {});
  std::vector<progress_cell> cells(s.extents.size());
  in_process_exchange exchange;
  silent nobody;
  auto head =
      cluster_head::start(std::move(s), nobody, cells, nullptr, make_shard_factory(models, {&exchange, nullptr, {}}));
  if (!head) return {3, head.error().where, {}};
  (*head)->begin();
  return (*head)->wait();
}

void memory(bench::report& out, const std::string& schedule_name) {
  auto loaded = load_config("", {"parallel.pp=4", "parallel.oversubscribe=true", "parallel.workers=threads",
                                 "parallel.schedule=" + schedule_name, "train.steps=2", "train.global_batch=8",
                                 "train.micro_batch=1", "model.layers=4"});
  if (!loaded) return fmt::print(stderr, "{}\n", loaded.error().where);
  const auto outcome = run_in_threads(loaded->values);
  if (outcome.exit_code != 0) return fmt::print(stderr, "{}\n", outcome.text);
  const auto plan = make_schedule(schedule_name, {4, micro_batches});
  for (std::uint32_t i = 0; i < 4; ++i) {
    const auto& a = outcome.activations[i];
    const auto predicted = peak_in_flight(*plan, i) * a.bytes_each;
    const auto who = fmt::format("{} p=4 m=8 stage {}: ", schedule_name, i);
    out.add(who + "micro-batches held, predicted", peak_in_flight(*plan, i), "");
    out.add(who + "micro-batches held, measured", static_cast<double>(a.micro_batches), "",
            bench::report::demand::at_most, peak_in_flight(*plan, i));
    out.add(who + "activations, predicted", static_cast<double>(predicted) / 1024, "KiB");
    out.add(who + "activations, measured", static_cast<double>(a.bytes) / 1024, "KiB", bench::report::demand::at_most,
            static_cast<double>(predicted) / 1024);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::report out("a pipeline of stages (hidden 512, 4 layers, seq 256, 8 micro-batches of 1)");
  const auto program = (fs::path(argv[0]).parent_path() / "troupe").string();
  memory(out, "1f1b");
  memory(out, "gpipe");
  speed(out, program, "processes");
  speed(out, program, "threads");
  return out.finish(argc, argv);
}
