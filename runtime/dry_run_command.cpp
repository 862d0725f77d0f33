#include <fmt/format.h>

#include <algorithm>

#include "runtime/commands.hpp"
#include "runtime/config.hpp"

namespace troupe {

int dry_run_command(const run_request& request, std::ostream& out, std::ostream& err) {
  const auto loaded = load_config(request.config_path, request.overrides);
  if (!loaded) {
    err << fmt::format("troupe: {}\n", loaded.error().where);
    return 2;
  }
  std::size_t key_width = 0, value_width = 0;
  for (const auto& o : loaded->origins) {
    key_width = std::max(key_width, o.key.size());
    value_width = std::max(value_width, o.value.size());
  }
  for (const auto& o : loaded->origins)
    out << fmt::format("{:<{}}  {:<{}}  {}\n", o.key, key_width, o.value, value_width, o.origin);
  return 0;
}

}  // namespace troupe
