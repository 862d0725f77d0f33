#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.hpp"
#include "runtime/commands.hpp"
#include "runtime/trace.hpp"

using namespace troupe;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

const std::string trillion = TROUPE_SOURCE_DIR "/examples/gpt/trillion.toml";
const std::string small = TROUPE_SOURCE_DIR "/examples/gpt/default.toml";

struct outcome {
  int code;
  std::string out, err;
};

outcome plan(const plan_request& request) {
  std::ostringstream out, err;
  const int code = plan_command(request, out, err);
  return {code, out.str(), err.str()};
}

outcome simulate(const simulate_config_request& request) {
  std::ostringstream out, err;
  const int code = simulate_config_command(request, out, err);
  return {code, out.str(), err.str()};
}

}  // namespace

TEST_CASE("plan says of a trillion parameters what each of 512 shards holds and where", "[plan_command]") {
  const auto told = plan({trillion, {}, false, true});
  REQUIRE(told.code == 0);
  const auto object = json::parse(told.out);
  CHECK(object["nodes"] == 384);
  CHECK(object["fits"] == true);
  const auto& shards = object["shards"];
  REQUIRE(shards.size() == 64 * 8);
  const auto& middle = shards[32 * 8 + 3];
  CHECK(middle["stage"] == 32);
  CHECK(middle["shard"] == 3);
  CHECK(middle["layers"] == 2);
  CHECK(middle["parameters"] == 1'966'432'000);
  CHECK(middle["parameter_bytes"] == 3'932'864'000);
  CHECK(middle["gradient_bytes"] == 7'865'728'000);
  CHECK(middle["optimizer_bytes"] == 23'597'184'000);
  REQUIRE(middle["replicas"].size() == 6);
  for (const auto& place : middle["replicas"]) CHECK(place["device"] == 3);
  std::int64_t parameters = 0, layers = 0;
  for (const auto& s : shards) {
    parameters += s["parameters"].get<std::int64_t>();
    layers += s["layers"].get<std::int64_t>();
  }
  CHECK(layers == 128 * 8);
  // Norms, some biases and positions are on each of 8 shards, the table on two stages.
  CHECK(static_cast<double>(parameters) == Approx(1.0086e12).epsilon(0.003));
}

TEST_CASE("plan prints a line a stage, and says where a layout does not fit", "[plan_command]") {
  const auto table = plan({small, {}, false, false});
  REQUIRE(table.code == 0);
  CHECK_THAT(table.out, Contains("pp 2 · dp 1 · tp 1, 1f1b, micro-batch 2") && Contains("n0:0") && Contains("n0:1") &&
                            Contains("stage 0 is the fullest") && !Contains("does not fit"));
  const auto tight = plan({small, {"cluster.memory_gib=0.001"}, false, false});
  REQUIRE(tight.code == 0);
  CHECK_THAT(tight.out, Contains("it does not fit; see troupe plan --search"));
}

TEST_CASE("plan refuses what has no place in one sentence", "[plan_command]") {
  const auto told = plan({trillion, {"cluster.nodes=100"}, false, false});
  CHECK(told.code == 2);
  CHECK(told.out.empty());
  CHECK_THAT(told.err, Contains("need 384 nodes of 8 devices, and there are 100: 284 missing"));
  CHECK(plan({small, {"parallel.pp=7"}, false, false}).code == 2);
  CHECK_THAT(plan({small, {"plan.schedule=zb"}, false, false}).err, Contains("plan.schedule must be one of as-run"));
}

TEST_CASE("plan --search ranks layouts by tokens per second and tells why", "[plan_command]") {
  const auto told = plan({small, {"cluster.nodes=1", "cluster.devices_per_node=4"}, true, true});
  REQUIRE(told.code == 0);
  const auto object = json::parse(told.out);
  CHECK(object["devices"] == 4);
  const auto& layouts = object["layouts"];
  REQUIRE(layouts.size() > 3);
  for (std::size_t k = 0; k < layouts.size(); ++k) {
    const auto& l = layouts[k];
    CHECK(l["pp"].get<int>() * l["dp"].get<int>() * l["tp"].get<int>() == 4);
    if (k > 0) CHECK(l["tokens_per_s"].get<double>() <= layouts[k - 1]["tokens_per_s"].get<double>());
    double sum = 0;
    for (const auto& [name, seconds] : l["terms_s"].items()) sum += seconds.get<double>();
    CHECK(sum == Approx(l["step_s"].get<double>()));
  }
  CHECK_THAT(object["explanation"].get<std::string>(), Contains("best:") && Contains("runner-up"));
  const auto table = plan({small, {"cluster.nodes=1", "cluster.devices_per_node=4"}, true, false});
  CHECK_THAT(table.out, Contains("layouts for 4 devices (cpu)") && Contains("runner-up"));
}

TEST_CASE("simulate of a config has every key of the command's other form", "[simulate_command]") {
  const auto told = simulate({small, {}, "", true});
  REQUIRE(told.code == 0);
  const auto object = json::parse(told.out);
  std::ostringstream out, err;
  REQUIRE(simulate_command({"1f1b", 2, 8, 1, "", true}, out, err) == 0);
  const auto other = json::parse(out.str());
  for (const auto& [key, value] : other.items())
    if (key != "cost") CHECK(object.contains(key));
  CHECK(object["devices"] == 2);
  CHECK(object["micro_batches"] == 8);
  CHECK(object["peak_in_flight"] == json({2, 1}));
  CHECK(object["order"][1][1] == "B0");
  CHECK(object["per_stage"].size() == 2);
  CHECK(object["makespan"].get<double>() < object["step"].get<double>());
  const double tokens = 16 * 128;
  CHECK(object["tokens_per_s"].get<double>() == Approx(tokens / (object["step"].get<double>() / 1e3)));
}

TEST_CASE("simulate of a config takes a schedule that a run cannot take yet", "[simulate_command]") {
  const auto told = simulate({small, {"plan.schedule=interleaved", "plan.chunks=3"}, "", false});
  REQUIRE(told.code == 0);
  CHECK_THAT(told.out, Contains("interleaved with 3 chunks") && Contains("bubble") && Contains("peak in flight"));
}

TEST_CASE("simulate writes its step as a run writes its trace", "[simulate_command]") {
  const auto path =
      (std::filesystem::temp_directory_path() / ("troupe_simulated_" + std::to_string(getpid()) + ".json")).string();
  REQUIRE(simulate({small, {}, path, true}).code == 0);
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::filesystem::remove(path);
  const auto steps = read_trace(text);
  REQUIRE(steps);
  REQUIRE(steps->size() == 1);
  REQUIRE(steps->front().timelines.size() == 2);
  CHECK(steps->front().timelines[1].actions.size() == 16);
  CHECK(to_string(steps->front().timelines[1].actions[1].what) == "B0");
  CHECK(steps->front().bubble == Approx(measured_bubble(steps->front().timelines)).margin(1e-4));
  CHECK(simulate({small, {}, "/no/such/folder/trace.json", true}).code == 2);
}
