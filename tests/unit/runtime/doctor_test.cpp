#include "runtime/doctor.hpp"

#include <sys/resource.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "catch.hpp"
#include "runtime/commands.hpp"
#include "runtime/machine_checks.hpp"

using namespace troupe;

TEST_CASE("each finding has a name of its own, a figure, and a remedy exactly where it is not ok", "[doctor]") {
  const auto report = examine_machine();
  std::set<std::string> names;
  for (const auto& f : report.findings) {
    INFO(f.what);
    CHECK(names.insert(f.what).second);
    CHECK_FALSE(f.found.empty());
    CHECK(f.remedy.empty() == (f.level == finding_level::ok));
  }
  CHECK(names.size() == 12);
  CHECK_FALSE(report.advice.empty());
}

TEST_CASE("the advice is the first needed thing that is missing, then the first that warns", "[doctor]") {
  const finding fine{"a", finding_level::ok, true, "x", ""}, warns{"b", finding_level::warn, true, "x", "raise b"},
      lacks{"c", finding_level::missing, true, "x", "install c"},
      optional{"d", finding_level::missing, false, "x", "get d"};
  CHECK(advise({fine, warns, optional, lacks}) == "Look at c first: install c.");
  CHECK(advise({fine, optional, warns}) == "Look at b first: raise b.");
  CHECK(advise({fine, optional}) == "This machine is ready: troupe run examples/gpt/default.toml.");
}

TEST_CASE("a low limit of open files is noticed", "[doctor]") {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit low{100, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &low);
  const auto found = check_open_files();
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(found.level == finding_level::warn);
  CHECK(found.remedy == "ulimit -n 1024");
}

TEST_CASE("a folder that cannot hold a run is noticed", "[doctor]") {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path("/proc");
  const auto found = check_run_folder();
  std::filesystem::current_path(before);
  CHECK(found.level == finding_level::missing);
  CHECK(found.found.starts_with("/proc: "));
}

TEST_CASE("with --json the report is one object on stdout, otherwise lines on stderr", "[doctor]") {
  std::ostringstream out, err;
  CHECK(doctor_command({true}, out, err) == 0);
  CHECK(err.str().empty());
  const auto object = nlohmann::json::parse(out.str());
  CHECK(object["findings"].size() == 12);
  CHECK(object["findings"][0]["what"] == "cores");
  CHECK(object["advice"].is_string());
  std::ostringstream none, lines;
  CHECK(doctor_command({false}, none, lines) == 0);
  CHECK(none.str().empty());
  CHECK(lines.str().find("cores") != std::string::npos);
}
