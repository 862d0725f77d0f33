#include "runtime/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "runtime/config_draft.hpp"
#include "runtime/config_relations.hpp"
#include "runtime/nearest_name.hpp"

extern char** environ;

namespace troupe {
namespace {

constexpr std::size_t most_config_bytes = 1 << 20;

error unknown_key(std::string_view place, std::string_view name) {
  return invalid(fmt::format("{}: unknown key {}; did you mean {}?", place, name, nearest_config_key(name).name));
}

bool is_section(std::string_view name) {
  return std::ranges::find(config_schema(), name, &config_key::section) != config_schema().end();
}

std::vector<std::string_view> section_names() {
  std::vector<std::string_view> names;
  for (const auto& key : config_schema())
    if (names.empty() || names.back() != key.section()) names.push_back(key.section());
  return names;
}

status read_section(config_draft& into, std::string_view section, const toml::node& node, std::string_view source) {
  const auto* table = node.as_table();
  if (!table)
    return invalid(fmt::format("{}: {} is a section, not {}; write [{}] on a line of its own",
                               at_line(source, node.source()), section, describe(node), section));
  for (const auto& [bare, value] : *table) {
    const auto name = fmt::format("{}.{}", section, bare.str());
    const auto place = at_line(source, bare.source());
    const auto* key = find_config_key(name);
    if (!key) return unknown_key(place, name);
    TROUPE_CHECK(assign(into, *key, value, place));
  }
  return {};
}

status read_text(config_draft& into, std::string_view text, std::string_view source) {
  TROUPE_TRY(const auto root, parse_toml(text, source));
  for (const auto& [name, node] : root) {
    const auto place = at_line(source, name.source());
    if (is_section(name.str())) {
      TROUPE_CHECK(read_section(into, name.str(), node, source));
    } else if (node.is_table()) {
      return invalid(fmt::format("{}: unknown section [{}]; did you mean [{}]?", place, name.str(),
                                 nearest_name(name.str(), section_names())));
    } else {
      return unknown_key(place, name.str());
    }
  }
  return {};
}

/// "TROUPE_TRAIN_STEPS" of "train.steps".
std::string variable_name(std::string_view key) {
  auto name = fmt::format("TROUPE_{}", key);
  for (auto& c : name) c = c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

/// Whether a variable looks like one of ours: TROUPE_, a section, _.
bool names_section(std::string_view variable) {
  const auto sections = section_names();
  return std::ranges::any_of(sections,
                             [&](auto section) { return variable.starts_with(variable_name(section) + "_"); });
}

status read_variable(config_draft& into, std::string_view variable, std::string_view value) {
  for (const auto& key : config_schema())
    if (variable == variable_name(key.name)) return assign_text(into, key, value, std::string(variable));
  if (!names_section(variable)) return {};
  std::vector<std::string> names;
  for (const auto& key : config_schema()) names.push_back(variable_name(key.name));
  return invalid(fmt::format("unknown variable {}; did you mean {}?", variable,
                             nearest_name(variable, {names.begin(), names.end()})));
}

status read_environment(config_draft& into) {
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (text.starts_with("TROUPE_") && equals != text.npos)
      TROUPE_CHECK(read_variable(into, text.substr(0, equals), text.substr(equals + 1)));
  }
  return {};
}

status read_override(config_draft& into, std::string_view text) {
  const auto equals = text.find('=');
  const auto name = text.substr(0, equals);
  if (equals == text.npos) return invalid(fmt::format("--set {}: write it as section.key=value", text));
  const auto* key = find_config_key(name);
  if (!key) return unknown_key("--set", name);
  return assign_text(into, *key, text.substr(equals + 1), "--set");
}

result<std::string> read_file(const std::string& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code))
    return invalid(fmt::format("{}: is a folder; give the path of a TOML file", path));
  std::ifstream file(path, std::ios::binary);
  if (!file) return invalid(fmt::format("{}: {}; give the path of a TOML file", path, std::strerror(errno)));
  std::string text(most_config_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > most_config_bytes)
    return invalid(fmt::format("{}: larger than {} bytes; give the path of a TOML file", path, most_config_bytes));
  return text;
}

status check(config_draft& d) {
  return check_relations(d.values, [&](std::string_view name) { return d.origin(*find_config_key(name)); });
}

}  // namespace

result<loaded_config> load_config(const std::string& path, const std::vector<std::string>& overrides) {
  config_draft d;
  if (!path.empty()) {
    TROUPE_TRY(const auto text, read_file(path));
    TROUPE_CHECK(read_text(d, text, path));
  }
  TROUPE_CHECK(read_environment(d));
  for (const auto& text : overrides) TROUPE_CHECK(read_override(d, text));
  TROUPE_CHECK(check(d));
  loaded_config loaded{d.values, {}};
  for (const auto& key : config_schema())
    loaded.origins.push_back({std::string(key.name), toml_value(key, d.values), d.origin(key)});
  return loaded;
}

result<config> parse_config(std::string_view text) {
  config_draft d;
  TROUPE_CHECK(read_text(d, text, "config"));
  TROUPE_CHECK(check(d));
  return d.values;
}

std::string to_toml(const config& values) {
  std::string text;
  std::string_view section;
  for (const auto& key : config_schema()) {
    if (key.section() != section) text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", key.section());
    section = key.section();
    text += fmt::format("{} = {}\n", key.bare_name(), toml_value(key, values));
  }
  return text;
}

std::string config_help() {
  std::string text;
  std::string_view section;
  const config defaults;
  for (const auto& key : config_schema()) {
    if (key.section() != section) text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", key.section());
    section = key.section();
    const auto assignment = fmt::format("{} = {}", key.bare_name(), toml_value(key, defaults));
    const auto unit = key.unit.empty() ? "" : fmt::format(" [{}]", key.unit);
    const auto& choices = key.limits.choices;
    const auto among = choices.size() < 2 ? "" : fmt::format(" ({})", fmt::join(choices, ", "));
    text += fmt::format("  {:<38}{}{}{}\n", assignment, key.help, among, unit);
  }
  return text;
}

}  // namespace troupe
