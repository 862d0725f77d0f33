#pragma once

#include <toml++/toml.h>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config_schema.hpp"

namespace troupe {

/// The values of a config while its sources are read, with the origin of each key.
struct config_draft {
  config values;
  std::vector<std::string> origins = std::vector<std::string>(config_schema().size(), "default");

  /// `key` must be an element of `config_schema()`.
  std::string& origin(const config_key& key) {
    return origins[static_cast<std::size_t>(&key - config_schema().data())];
  }
};

/// "run.toml:12".
std::string at_line(std::string_view source, const toml::source_region& region);

/// What stands there instead of what was wanted, for a person: "the text \"ten\"", "a list".
std::string describe(const toml::node& node);

/// The table that `text` writes; a syntax error names `source`, line and column.
result<toml::table> parse_toml(std::string_view text, std::string_view source);

/// Gives `key` the value of `node`, which stands at `place`, when its type and limits allow it.
status assign(config_draft& into, const config_key& key, const toml::node& node, const std::string& place);

/// Gives `key` a value as people write it in a shell: TOML, but a text needs no quotes.
status assign_text(config_draft& into, const config_key& key, std::string_view text, const std::string& place);

}  // namespace troupe
