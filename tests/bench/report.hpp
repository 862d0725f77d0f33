#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace bench {

/// What a benchmark found: printed as a table, and with `--json FILE` written as an array of
/// {name, value, unit, aim, ok}; `aim` and `ok` are null where nothing was demanded.
class report {
public:
  explicit report(std::string title) { fmt::print("{}\n", title); }

  enum class demand { at_most, at_least };
  void add(const std::string& name, double value, const std::string& unit) { add_row(name, value, unit, {}, {}); }
  void add(const std::string& name, double value, const std::string& unit, demand which, double limit) {
    const bool ok = which == demand::at_most ? value <= limit : value >= limit;
    add_row(name, value, unit, fmt::format("{} {}", which == demand::at_most ? "<=" : ">=", limit), ok);
  }

  /// Writes the file that the command line asks for, if any; returns main's exit code.
  int finish(int argc, char** argv) const {
    for (int i = 1; i + 1 < argc; ++i)
      if (std::string(argv[i]) == "--json") std::ofstream(argv[i + 1]) << rows_.dump(1) << '\n';
    return 0;
  }

private:
  void add_row(const std::string& name, double value, const std::string& unit, std::optional<std::string> aim,
               std::optional<bool> ok) {
    fmt::print("  {:<64} {:>12.5g} {:<10} {}\n", name, value, unit,
               aim ? fmt::format("aim {} {}", *aim, *ok ? "ok" : "MISSED") : "");
    std::fflush(stdout);
    nlohmann::json row{{"name", name}, {"value", value}, {"unit", unit}, {"aim", nullptr}, {"ok", nullptr}};
    if (aim) row["aim"] = *aim;
    if (ok) row["ok"] = *ok;
    rows_.push_back(std::move(row));
  }
  nlohmann::json rows_ = nlohmann::json::array();
};

inline double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const auto n = v.size();
  return n == 0 ? 0 : n % 2 == 1 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

}  // namespace bench
