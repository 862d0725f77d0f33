#include "runtime/config.hpp"

#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "catch.hpp"
#include "runtime/config_schema.hpp"
#include "runtime/nearest_name.hpp"

using namespace troupe;
using Catch::Matchers::Contains;

namespace {

/// A file that lives as long as the test.
struct config_file {
  std::string path = (std::filesystem::temp_directory_path() / ("troupe_config_" + std::to_string(getpid()) + ".toml"));
  explicit config_file(const std::string& text) { std::ofstream(path) << text; }
  ~config_file() { std::filesystem::remove(path); }
};

struct variable {
  const char* name;
  variable(const char* n, const char* value) : name(n) { setenv(name, value, 1); }
  ~variable() { unsetenv(name); }
};

std::string error_of(const std::vector<std::string>& overrides) {
  const auto loaded = load_config("", overrides);
  return loaded ? "" : loaded.error().where;
}

std::string file_error(const std::string& text) {
  const config_file file(text);
  const auto loaded = load_config(file.path, {});
  if (loaded) return "";
  CHECK(loaded.error().code == errc::invalid_argument);
  auto where = loaded.error().where;
  return where.replace(0, file.path.size(), "run.toml");
}

std::string origin_of(const loaded_config& loaded, const std::string& key) {
  for (const auto& o : loaded.origins)
    if (o.key == key) return o.origin;
  return "no such key";
}

}  // namespace

TEST_CASE("an empty config is the defaults, and they are valid", "[config]") {
  const auto loaded = load_config("", {});
  REQUIRE(loaded);
  CHECK(loaded->values.train.steps == 100);
  CHECK(loaded->origins.size() == config_schema().size());
  CHECK(loaded->origins.front().key == "model.kind");
  CHECK(loaded->origins.front().value == "\"gpt\"");
  CHECK(loaded->origins.front().origin == "default");
}

TEST_CASE("what to_toml writes reads back to the same values", "[config]") {
  config c;
  c.model.hidden = 96;
  c.data.path = "a \"quoted\" \\ path\twith\x01 control and ünïcode";
  c.parallel.pp = 3;
  c.parallel.split = {2, 2, 2};
  c.train.lr = 0.1 + 0.2;
  c.train.epsilon = 1.0 / 3;
  c.train.clip = 5;
  c.train.seed = 1'234'567'890'123'456'789;
  c.transport.checksum = false;
  const auto text = to_toml(c);
  const auto back = parse_config(text);
  REQUIRE(back);
  CHECK(to_toml(*back) == text);
  CHECK(back->data.path == c.data.path);
  CHECK(back->parallel.split == c.parallel.split);
  CHECK(back->train.lr == c.train.lr);
  CHECK(back->train.epsilon == c.train.epsilon);
  CHECK(back->train.seed == c.train.seed);
  CHECK_FALSE(back->transport.checksum);
}

TEST_CASE("--set wins over a variable, a variable over the file, the file over the default", "[config]") {
  const config_file file("[train]\nsteps = 7\nlr = 1\n\n[parallel]\nschedule = 'gpipe'\n");
  const variable steps("TROUPE_TRAIN_STEPS", "8"), batch("TROUPE_TRAIN_GLOBAL_BATCH", "32");
  const auto loaded = load_config(file.path, {"train.steps=9", "parallel.split=[2, 4]"});
  REQUIRE(loaded);
  CHECK(loaded->values.train.steps == 9);
  CHECK(loaded->values.train.global_batch == 32);
  CHECK(loaded->values.train.lr == 1.0);
  CHECK(loaded->values.parallel.schedule == "gpipe");
  CHECK(loaded->values.parallel.split == std::vector<std::int64_t>{2, 4});
  CHECK(origin_of(*loaded, "train.steps") == "--set");
  CHECK(origin_of(*loaded, "train.global_batch") == "TROUPE_TRAIN_GLOBAL_BATCH");
  CHECK(origin_of(*loaded, "train.lr") == file.path + ":3");
  CHECK(origin_of(*loaded, "parallel.schedule") == file.path + ":6");
  CHECK(origin_of(*loaded, "train.seed") == "default");
}

TEST_CASE("a text needs no quotes in --set", "[config]") {
  const auto bare = load_config("", {"data.path=my data/it's.txt"});
  REQUIRE(bare);
  CHECK(bare->values.data.path == "my data/it's.txt");
  const auto quoted = load_config("", {"data.path=\"a=b\""});
  REQUIRE(quoted);
  CHECK(quoted->values.data.path == "a=b");
}

TEST_CASE("an unknown key or section names its line and the nearest known one", "[config]") {
  CHECK(file_error("[train]\nstpes = 5\n") == "run.toml:2: unknown key train.stpes; did you mean train.steps?");
  CHECK(file_error("[train]\nlayers = 5\n") == "run.toml:2: unknown key train.layers; did you mean model.layers?");
  CHECK(file_error("\nsteps = 5\n") == "run.toml:2: unknown key steps; did you mean train.steps?");
  CHECK(file_error("[trian]\nsteps = 5\n") == "run.toml:1: unknown section [trian]; did you mean [train]?");
  CHECK(error_of({"train.microbatch=2"}) == "--set: unknown key train.microbatch; did you mean train.micro_batch?");
  const variable wrong("TROUPE_TRAIN_STEP", "8");
  CHECK(error_of({}) == "unknown variable TROUPE_TRAIN_STEP; did you mean TROUPE_TRAIN_STEPS?");
}

TEST_CASE("a variable of another program that begins with TROUPE_ is left alone", "[config]") {
  const variable other("TROUPE_INCARNATION", "3");
  CHECK(load_config("", {}));
}

TEST_CASE("a wrong type says where it stands, what is wanted and what was found", "[config]") {
  CHECK(file_error("[train]\nsteps = \"ten\"\n") ==
        "run.toml:2: train.steps must be a whole number from 1 to 1000000000000, not the text \"ten\"");
  CHECK(file_error("[train]\nsteps = 2.5\n") ==
        "run.toml:2: train.steps must be a whole number from 1 to 1000000000000, not 2.5");
  CHECK(file_error("[model]\ntied = 1\n") == "run.toml:2: model.tied must be true or false, not 1");
  CHECK(file_error("[train]\nlr = [1]\n") == "run.toml:2: train.lr must be a number from 0 to 1000, not a list");
  CHECK(file_error("[data]\npath = 2026-01-01\n") ==
        "run.toml:2: data.path must be a text that is not empty, not a date or time");
  CHECK_THAT(file_error("[parallel]\nsplit = [1, 2.5]\n"),
             Contains("parallel.split must be a list of whole numbers from 1 to 65000, not a list"));
  CHECK(file_error("train = 5\n") == "run.toml:1: train is a section, not 5; write [train] on a line of its own");
  CHECK(error_of({"train.steps=many"}) ==
        "--set: train.steps must be a whole number from 1 to 1000000000000, not \"many\"");
}

TEST_CASE("a value outside its range or choices is refused with what would do", "[config]") {
  CHECK(error_of({"train.steps=0"}) == "--set: train.steps must be a whole number from 1 to 1000000000000, not 0");
  CHECK(error_of({"train.epsilon=0"}) ==
        "--set: train.epsilon must be a number between 0 and 1, both excluded, not 0.0");
  CHECK(error_of({"train.lr=nan"}) == "--set: train.lr must be a number from 0 to 1000, not nan");
  CHECK(error_of({"train.clip=inf"}) == "--set: train.clip must be a number from 0 to 1000000000, not inf");
  CHECK(error_of({"parallel.workers=fibers"}) ==
        "--set: parallel.workers must be one of processes, threads, not \"fibers\"");
  CHECK(error_of({"train.dtype=bf16"}) == "--set: train.dtype must be f32 (the only choice), not \"bf16\"");
  CHECK(error_of({"data.path="}) == "--set: data.path must be a text that is not empty, not \"\"");
  CHECK_THAT(error_of({"parallel.schedule=1f1d"}), Contains("must be one of") && Contains("1f1b"));
}

TEST_CASE("values that do not fit together are refused at the value somebody set", "[config]") {
  CHECK(file_error("[model]\nhidden = 100\nheads = 8\n") ==
        "run.toml:2: model.hidden = 100 is not a multiple of model.heads = 8; hidden = 104 would do");
  CHECK(error_of({"model.heads=3"}) ==
        "--set: model.hidden = 128 is not a multiple of model.heads = 3; hidden = 129 would do");
  CHECK(error_of({"train.micro_batch=3"}) ==
        "--set: train.global_batch = 16 is not a multiple of train.micro_batch = 3; global_batch = 15 would do");
  CHECK(error_of({"parallel.pp=7"}) ==
        "--set: parallel.pp = 7 is more than the 6 pieces of a model with model.layers = 4 (embedding and head "
        "included); choose pp up to 6");
  CHECK(error_of({"parallel.split=[1,2,3]"}) ==
        "--set: parallel.split names 3 stages, but parallel.pp = 2; give one number a stage");
  CHECK(error_of({"parallel.split=[2,3]"}) ==
        "--set: parallel.split adds up to 5, but model.layers = 4 with embedding and head are 6 pieces; make the "
        "numbers add up to 6");
  CHECK(error_of({"model.vocab=100"}) ==
        "--set: model.vocab = 100 is too small for data.tokenizer = \"bytes\"; choose at least 256");
}

TEST_CASE("a model of the user's own decides itself how many stages it can be cut into", "[config]") {
  CHECK(load_config("", {"model.kind=mine", "parallel.pp=40"}));
}

TEST_CASE("a file that cannot be read or is not TOML is one sentence", "[config]") {
  CHECK(file_error("[train\nsteps = 5\n").starts_with("run.toml:1:7: not valid TOML: "));
  CHECK(file_error("[train]\nsteps = 5\nsteps = 6\n").starts_with("run.toml:3:"));
  CHECK(load_config("/nowhere/run.toml", {}).error().where ==
        "/nowhere/run.toml: No such file or directory; give the path of a TOML file");
  CHECK(load_config("/tmp", {}).error().where == "/tmp: is a folder; give the path of a TOML file");
  CHECK_THAT(file_error(std::string(2 << 20, '\n')), Contains("larger than"));
}

TEST_CASE("an override that is no assignment, or hides a second one, is refused", "[config]") {
  CHECK(error_of({"train.steps"}) == "--set train.steps: write it as section.key=value");
  CHECK_THAT(error_of({"train.steps=5\n[model]\nlayers=1"}), Contains("train.steps must be"));
  CHECK_THAT(error_of({"data.path=\xff\xfe"}), Contains("data.path must be"));
}

TEST_CASE("the help lists every key with its default, unit and meaning", "[config]") {
  const auto help = config_help();
  for (const auto& key : config_schema()) {
    INFO(key.name);
    CHECK_FALSE(key.help.empty());
    CHECK(help.find(std::string(key.bare_name()) + " = " + toml_value(key, config{})) != std::string::npos);
    CHECK(help.find(std::string(key.help)) != std::string::npos);
    CHECK(find_config_key(key.name) == &key);
  }
}

TEST_CASE("a swap of neighbours is one edit", "[config]") {
  CHECK(edit_distance("stpes", "steps") == 1);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(nearest_name("rnu", {"doctor", "run", "trace"}) == "run");
  CHECK(nearest_name("x", {}).empty());
}

TEST_CASE("docs/configuration.md holds the help as it is", "[config]") {
  std::ifstream file(TROUPE_SOURCE_DIR "/docs/configuration.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  CHECK_THAT(page, Contains("```text\n" + config_help() + "```\n"));
}
