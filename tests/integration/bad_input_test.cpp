// What is wrong with a command, a config or a machine is said in one sentence, with exit code 2, and nothing is left.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "catch.hpp"
#include "tiny_run.hpp"

using namespace troupe::whole;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

/// A refusal: exit code 2, one line on stderr that holds `says` and names a remedy, and no trace of the attempt.
void check_refused(const std::vector<std::string>& words, const std::vector<std::string>& says,
                   const fs::path& run_directory) {
  INFO(fmt::format("{}", words.back()));
  const bool was_there = fs::exists(run_directory);
  const shared_memory_watch shared;
  program p(words);
  const auto end = p.wait();
  INFO(end.err);
  CHECK(end.code == 2);
  CHECK(lines_of(end.err).size() == 1);
  CHECK_THAT(end.err, Catch::Matchers::StartsWith("troupe: "));
  for (const auto& part : says) CHECK_THAT(end.err, Contains(part));
  CHECK(end.out.empty());
  CHECK(p.processes().empty());
  CHECK(shared.left() == nothing);
  CHECK(fs::exists(run_directory) == was_there);
}

struct wrong_key {
  std::string key;                ///< given with --set
  std::vector<std::string> says;  ///< parts of the sentence: what, where, what to do
};

/// A port of loopback that somebody else listens on.
class taken_port {
public:
  taken_port() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    REQUIRE(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(socket_, 1) == 0);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    number = ntohs(address.sin_port);
  }
  taken_port(const taken_port&) = delete;
  taken_port& operator=(const taken_port&) = delete;
  ~taken_port() { ::close(socket_); }
  int number = 0;

private:
  int socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

}  // namespace

TEST_CASE("a wrong key, value or relation is one sentence, exit code 2, and leaves nothing", "[bad_input]") {
  const scratch_folder scratch;
  const std::vector<wrong_key> table = {
      {"train.stesp=5", {"--set: unknown key train.stesp", "did you mean train.steps?"}},
      {"steps=5", {"unknown key steps", "did you mean train.steps?"}},
      {"train.steps", {"write it as section.key=value"}},
      {"train.steps=many", {"--set: train.steps must be a whole number", "not \"many\""}},
      {"train.steps=0", {"train.steps must be a whole number from 1", "not 0"}},
      {"model.tied=7", {"model.tied must be true or false", "not 7"}},
      {"train.lr=nan", {"train.lr must be a number", "not nan"}},
      {"model.heads=3", {"model.hidden = 32 is not a multiple of model.heads = 3", "would do"}},
      {"parallel.pp=5", {"parallel.pp = 5 is more than the 4 pieces", "choose pp up to 4"}},
      {"parallel.split=[1,1]", {"parallel.split adds up to 2", "make the numbers add up to 4"}},
      {"parallel.split=[4]", {"parallel.split names 1 stages, but parallel.pp = 2", "give one number a stage"}},
      {"train.global_batch=9", {"train.global_batch = 9 is not a multiple of train.micro_batch = 2", "would do"}},
      {"model.vocab=100", {"model.vocab = 100 is too small", "choose at least 256"}},
      {"model.kind=bert", {"model.kind", "bert", "gpt"}},
      {"parallel.schedule=zigzag", {"parallel.schedule must be one of", "gpipe", "1f1b", "zigzag"}},
      {"parallel.schedule=zb-v", {"parallel.schedule must be one of", "zb-h2", "not \"zb-v\""}},
      {"parallel.device=tpu", {"parallel.device must be one of cpu, cuda", "tpu"}},
      {"transport.route=pigeon", {"transport.route must be one of auto, shm, tcp", "pigeon"}},
      {"transport.control_port=70000", {"transport.control_port must be a whole number from 0 to 65535"}},
  };
  for (const auto& wrong : table)
    check_refused(scratch.troupe_run(scratch / "run", {wrong.key}), wrong.says, scratch / "run");
}

TEST_CASE("a corpus that cannot be read or is too short is one sentence", "[bad_input]") {
  const scratch_folder scratch;
  fs::create_directories(scratch / "folder" / "below");
  fs::create_directories(scratch / "empties");
  scratch.write("empties/nothing.txt", "");
  const std::vector<wrong_key> table = {
      {"data.path=" + (scratch / "absent.txt").string(),
       {"data.path:", "absent.txt does not exist", "name a text file"}},
      {"data.path=" + scratch.write("empty.txt", ""),
       {"data.path:", "empty.txt holds no text", "name a file with some"}},
      {"data.path=" + scratch.write("short.txt", std::string(33, 'x')),
       {"has 33 tokens", "at least 34", "use a longer text"}},
      {"data.path=" + (scratch / "folder").string(), {"folder holds no text", "name a file with some"}},
      {"data.path=" + (scratch / "empties").string(), {"empties holds no text", "name a file with some"}},
      {"data.path=/dev/null", {"/dev/null is neither a file nor a folder"}},
  };
  for (const auto& wrong : table)
    check_refused(scratch.troupe_run(scratch / "run", {wrong.key}), wrong.says, scratch / "run");
  const auto just_enough = run(scratch.troupe_run(
      scratch / "run", {"train.steps=1", "data.path=" + scratch.write("enough.txt", std::string(34, 'x'))}));
  CHECK(just_enough.code == 0);
}

TEST_CASE("a config that is no TOML, or is not there, is named with its line", "[bad_input]") {
  const scratch_folder scratch;
  const auto refused = [&](const std::string& config, const std::vector<std::string>& says) {
    check_refused({troupe_program(), "run", config, "--run-dir", (scratch / "run").string()}, says, scratch / "run");
  };
  refused(scratch.write("open.toml", "[model]\nlayers = 2\nhidden = = 3\n"), {"open.toml:3:", "not valid TOML"});
  refused(scratch.write("key.toml", "[model]\n\nlayer = 2\n"),
          {"key.toml:3: unknown key model.layer", "did you mean model.layers?"});
  refused(scratch.write("section.toml", "[modle]\nlayers = 2\n"),
          {"section.toml:1: unknown section [modle]", "did you mean [model]?"});
  refused(scratch.write("type.toml", "[model]\nlayers = \"two\"\n"),
          {"type.toml:2: model.layers must be a whole number", "the text \"two\""});
  refused(scratch.write("ratio.toml", "[model]\nheads = 3\nhidden = 32\n"),
          {"ratio.toml:3: model.hidden = 32", "would do"});
  refused((scratch / "absent.toml").string(),
          {"absent.toml: No such file or directory", "give the path of a TOML file"});
  refused(scratch.path().string(), {"is a folder", "give the path of a TOML file"});
}

TEST_CASE("a wrong command or option is one sentence that names the nearest", "[bad_input]") {
  const scratch_folder scratch;
  const auto refused = [&](std::vector<std::string> words, const std::vector<std::string>& says) {
    words.insert(words.begin(), troupe_program());
    check_refused(words, says, scratch / "run");
  };
  refused({"rum"}, {"unknown command 'rum'", "did you mean 'run'?"});
  refused({"run"}, {"needs a CONFIG", "such as: troupe run"});
  refused({"run", "x.toml", "--run-dri", "y"}, {"unknown option --run-dri", "did you mean --run-dir?"});
  refused({"run", "x.toml", "--workers", "fibers"}, {"--workers", "fibers"});
  refused({"run", "x.toml", "--grace", "-1"}, {"--grace", "-1"});
  refused({"trace", "show", (scratch / "absent").string()}, {"absent"});
}

TEST_CASE("a run directory that cannot be used is refused and stays as it was", "[bad_input]") {
  const scratch_folder scratch;
  fs::create_directories(scratch / "full");
  const auto note = scratch.write("full/note.txt", "mine");
  check_refused(scratch.troupe_run(scratch / "full"), {"full: is not empty", "choose a new folder"}, scratch / "full");
  CHECK(read_text(note) == "mine");
  check_refused(scratch.troupe_run(note), {"note.txt: is a file", "choose a new folder"}, note);
  CHECK(read_text(note) == "mine");
  check_refused(scratch.troupe_run(fs::path(note) / "run"),
                {"note.txt/run: cannot create: Not a directory", "--run-dir"}, fs::path(note) / "run");
  check_refused(scratch.troupe_run("/proc/troupe-test"), {"/proc/troupe-test: cannot create", "--run-dir"},
                "/proc/troupe-test");
  CHECK_FALSE(fs::exists(scratch / "full" / "metrics.jsonl"));
}

TEST_CASE("a control port in use is refused with the key to change", "[bad_input]") {
  const scratch_folder scratch;
  const taken_port taken;
  check_refused(
      scratch.troupe_run(scratch / "a" / "run", {fmt::format("transport.control_port={}", taken.number)}),
      {fmt::format("cannot listen on 127.0.0.1:{}", taken.number), "choose another one with transport.control_port"},
      scratch / "a");
}

TEST_CASE("more shards than cores are refused without parallel.oversubscribe", "[bad_input]") {
  const scratch_folder scratch;
  check_refused(
      scratch.troupe_run(scratch / "run", {"parallel.oversubscribe=false", "parallel.threads_per_shard=1000"}),
      {"needs 2000 cores and this machine offers", "set parallel.oversubscribe = true"}, scratch / "run");
}

TEST_CASE("a /dev/shm that is too small is refused before anything starts", "[bad_input]") {
  if (::geteuid() != 0) {
    WARN("SKIPPED: only root can mount a small /dev/shm in a namespace of its own");
    return;
  }
  const scratch_folder scratch;
  const std::vector<std::string> unshare = {
      "unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=1m tmpfs /dev/shm && exec \"$@\"", "sh"};
  if (run({"unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/dev/shm"}).code != 0) {
    WARN("SKIPPED: this machine does not let root mount in a namespace of its own");
    return;
  }
  const auto in_namespace = [&](std::vector<std::string> words) {
    words.insert(words.begin(), unshare.begin(), unshare.end());
    return words;
  };
  check_refused(in_namespace(scratch.troupe_run(scratch / "run")),
                {"/dev/shm has 1 MiB free", "transport.route = \"tcp\""}, scratch / "run");
  CHECK(run(in_namespace(scratch.troupe_run(scratch / "tcp", {"transport.route=tcp", "train.steps=2"}))).code == 0);
}
