#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/config.hpp"

namespace troupe {

/// A value of `config` that a key names.
using config_field = std::variant<std::int64_t*, double*, bool*, std::string*, std::vector<std::int64_t>*>;

/// What a value may be, beyond its type. Numbers (and each number of a list) lie in [low, high], or in (low, high)
/// where `open`; a text is one of `choices`, or anything not empty when there are none.
struct config_limits {
  double low = 0, high = 0;
  bool open = false;
  std::vector<std::string_view> choices;
};

/// One key: the only place that knows its name, place, limits, unit and help. Its default is the one of `config{}`.
struct config_key {
  std::string_view name;  ///< "train.steps"
  config_field (*field)(config&);
  config_limits limits;
  std::string_view unit;  ///< empty for names and switches
  std::string_view help;

  std::string_view section() const { return name.substr(0, name.find('.')); }
  std::string_view bare_name() const { return name.substr(name.find('.') + 1); }
};

/// Every key, in the order of `config`.
const std::vector<config_key>& config_schema();

/// The key of that name; null when there is none.
const config_key* find_config_key(std::string_view name);

/// The key that was most likely meant: near in its whole name, or of the same last part in another section.
const config_key& nearest_config_key(std::string_view name);

/// "a whole number from 1 to 65000", "true or false", "one of gpipe, 1f1b".
std::string expectation(const config_key& key);

/// What `value` breaks of `key`'s limits, as the end of a sentence that began with the key ("must be …"); empty:
/// nothing.
std::string limits_broken(const config_key& key, const config& values);

/// The value of `key` in `values`, as TOML.
std::string toml_value(const config_key& key, const config& values);

/// `text` as a TOML basic string, quotes included.
std::string toml_quoted(std::string_view text);

}  // namespace troupe
