#include <fmt/format.h>

#include "runtime/commands.hpp"
#include "runtime/planning/plan_reports.hpp"

namespace troupe {

namespace {

result<std::string> plan(const plan_request& request) {
  TROUPE_TRY(const auto loaded, load_config(request.config_path, request.overrides));
  return request.search ? planning::ranking_report(loaded.values, request.json)
                        : planning::layout_report(loaded.values, request.json);
}

}  // namespace

int plan_command(const plan_request& request, std::ostream& out, std::ostream& err) {
  const auto text = plan(request);
  if (text)
    out << *text;
  else
    err << fmt::format("troupe: {}\n", text.error().where);
  return text ? 0 : 2;
}

}  // namespace troupe
