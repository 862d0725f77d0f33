#include "runtime/answer.hpp"
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
  return answer(plan(request), out, err);
}

}  // namespace troupe
