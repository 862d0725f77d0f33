#include "runtime/main.hpp"

#include <iostream>
#include <iterator>

#include "runtime/builtin_models.hpp"
#include "runtime/command_line.hpp"
#include "runtime/commands.hpp"
#include "runtime/run_command.hpp"
#include "transport/ucx_port.hpp"

namespace troupe {

namespace {

struct dispatch {
  const std::vector<model_definition>& models;

  int operator()(const run_request& r) const {
    return r.dry_run ? dry_run_command(r, std::cout, std::cerr) : run_command(r, models);
  }
  int operator()(const worker_request& r) const { return worker_command(r, models); }
  int operator()(const schedule_request& r) const { return schedule_command(r, std::cout, std::cerr); }
  int operator()(const simulate_request& r) const { return simulate_command(r, std::cout, std::cerr); }
  int operator()(const simulate_config_request& r) const { return simulate_config_command(r, std::cout, std::cerr); }
  int operator()(const plan_request& r) const { return plan_command(r, std::cout, std::cerr); }
  int operator()(const doctor_request& r) const { return doctor_command(r, std::cout, std::cerr); }
  int operator()(const trace_show_request& r) const { return trace_show_command(r, std::cout, std::cerr); }
  int operator()(const usage_request& r) const {
    (r.exit_code == 0 ? std::cout : std::cerr) << r.text;
    return r.exit_code;
  }
};

}  // namespace

int main(int argc, char** argv, std::vector<model_definition> models) {
  set_ucx_environment();
  auto all = builtin_models();
  all.insert(all.end(), std::make_move_iterator(models.begin()), std::make_move_iterator(models.end()));
  return std::visit(dispatch{all}, parse_command_line(argc, argv));
}

}  // namespace troupe
