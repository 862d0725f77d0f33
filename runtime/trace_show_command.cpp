#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/commands.hpp"
#include "runtime/line_file.hpp"
#include "runtime/timeline_svg.hpp"
#include "runtime/trace.hpp"

namespace troupe {
namespace {

result<std::filesystem::path> draw(const trace_show_request& request) {
  const std::filesystem::path folder = request.run_directory, source = folder / "trace.json";
  std::ifstream file(source, std::ios::binary);
  if (!file)
    return invalid(
        fmt::format("{}: {}; name the folder of a run that has ended", source.string(), std::strerror(errno)));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto steps = read_trace(text);
  if (!steps) return invalid(fmt::format("{}: {}", source.string(), steps.error().where));
  auto target = request.output.empty() ? folder / "trace.html" : std::filesystem::path(request.output);
  TROUPE_CHECK(replace_file(target, timeline_html(*steps, folder.string())));
  return target;
}

}  // namespace

int trace_show_command(const trace_show_request& request, std::ostream& out, std::ostream& err) {
  const auto page = draw(request);
  if (page)
    out << page->string() << '\n';
  else
    err << fmt::format("troupe: {}\n", page.error().where);
  return page ? 0 : 2;
}

}  // namespace troupe
