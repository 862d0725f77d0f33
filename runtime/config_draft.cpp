#include "runtime/config_draft.hpp"

#include <fmt/format.h>

namespace troupe {
namespace {

bool read(const toml::node& node, std::int64_t& to) {
  const auto* v = node.as_integer();
  if (v) to = v->get();
  return v != nullptr;
}

bool read(const toml::node& node, double& to) {
  if (const auto* whole = node.as_integer()) return to = static_cast<double>(whole->get()), true;
  const auto* v = node.as_floating_point();
  if (v) to = v->get();
  return v != nullptr;
}

bool read(const toml::node& node, bool& to) {
  const auto* v = node.as_boolean();
  if (v) to = v->get();
  return v != nullptr;
}

bool read(const toml::node& node, std::string& to) {
  const auto* v = node.as_string();
  if (v) to = v->get();
  return v != nullptr;
}

bool read(const toml::node& node, std::vector<std::int64_t>& to) {
  const auto* list = node.as_array();
  if (!list) return false;
  to.assign(list->size(), 0);
  for (std::size_t i = 0; i < to.size(); ++i)
    if (!read(*list->get(i), to[i])) return false;
  return true;
}

}  // namespace

std::string at_line(std::string_view source, const toml::source_region& region) {
  return fmt::format("{}:{}", source, region.begin.line);
}

std::string describe(const toml::node& node) {
  if (const auto* v = node.as_string()) return fmt::format("the text {}", toml_quoted(v->get()));
  if (const auto* v = node.as_integer()) return fmt::format("{}", v->get());
  if (const auto* v = node.as_floating_point()) return fmt::format("{}", v->get());
  if (const auto* v = node.as_boolean()) return v->get() ? "true" : "false";
  if (node.is_array()) return "a list";
  if (node.is_table()) return "a section";
  return "a date or time";
}

// toml++ reports a syntax error by an exception, which ends here.
result<toml::table> parse_toml(std::string_view text, std::string_view source) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& e) {
    return invalid(fmt::format("{}:{}: not valid TOML: {}", at_line(source, e.source()), e.source().begin.column,
                               e.description()));
  }
}

status assign(config_draft& into, const config_key& key, const toml::node& node, const std::string& place) {
  const auto fits = std::visit([&](auto* field) { return read(node, *field); }, key.field(into.values));
  if (!fits)
    return invalid(fmt::format("{}: {} must be {}, not {}", place, key.name, expectation(key), describe(node)));
  if (const auto broken = limits_broken(key, into.values); !broken.empty())
    return invalid(fmt::format("{}: {} {}", place, key.name, broken));
  into.origin(key) = place;
  return {};
}

status assign_text(config_draft& into, const config_key& key, std::string_view text, const std::string& place) {
  const bool is_text = std::holds_alternative<std::string*>(key.field(into.values));
  const bool quoted = text.starts_with('"') || text.starts_with('\'');
  const auto line = fmt::format("value = {}", is_text && !quoted ? toml_quoted(text) : std::string(text));
  const auto parsed = parse_toml(line, place);
  if (!parsed || parsed->size() != 1)
    return invalid(fmt::format("{}: {} must be {}, not {}", place, key.name, expectation(key), toml_quoted(text)));
  return assign(into, key, *parsed->get("value"), place);
}

}  // namespace troupe
