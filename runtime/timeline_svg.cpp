#include "runtime/timeline_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace troupe {
namespace {

// Pixels.
constexpr double picture_width = 1000, label_width = 70, row_height = 28, row_gap = 6, margin = 12, title_height = 26;
constexpr double legend_height = 30, narrowest_text = 22, narrowest_number = 12;

struct colour_of_pass {
  pass what;
  std::string_view colour, meaning;
};
constexpr colour_of_pass colours[] = {{pass::forward, "#4c8df6", "forward"},
                                      {pass::backward, "#3aa76d", "backward"},
                                      {pass::backward_input, "#3aa76d", "backward of the input"},
                                      {pass::backward_weight, "#f2994a", "backward of the weights"}};

std::string_view colour(pass what) { return std::ranges::find(colours, what, &colour_of_pass::what)->colour; }

using timelines = std::vector<shard_timeline>;

bool contains(const timelines& lines, pass what) {
  return std::ranges::any_of(lines, [&](const shard_timeline& line) {
    return std::ranges::any_of(line.actions, [&](const action_record& a) { return a.what.what == what; });
  });
}

std::uint32_t chunks_of(const timelines& lines) {
  std::uint32_t chunks = 1;
  for (const auto& line : lines)
    for (const auto& a : line.actions) chunks = std::max(chunks, a.what.chunk + 1U);
  return chunks;
}

// Later chunks are paler.
double opacity(const action& a, std::uint32_t chunks) { return chunks == 1 ? 1 : 1 - 0.45 * a.chunk / (chunks - 1); }

struct interval {
  std::int64_t from_ns = std::numeric_limits<std::int64_t>::max(), to_ns = std::numeric_limits<std::int64_t>::min();
  double length_ns() const { return std::max(1.0, static_cast<double>(to_ns - from_ns)); }
};

interval makespan(const timelines& lines) {
  interval span;
  for (const auto& line : lines)
    for (const auto& a : line.actions) {
      span.from_ns = std::min(span.from_ns, a.start_ns);
      span.to_ns = std::max(span.to_ns, a.end_ns);
    }
  return span.to_ns < span.from_ns ? interval{0, 0} : span;
}

std::string text(double x, double y, std::string_view what, std::string_view attributes = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes, what);
}

std::string box(const shard_timeline& line, const action_record& a, std::uint32_t chunks, const interval& span,
                double y) {
  const double scale = (picture_width - label_width - 2 * margin) / span.length_ns();
  const double x = margin + label_width + static_cast<double>(a.start_ns - span.from_ns) * scale;
  const double width = static_cast<double>(a.end_ns - a.start_ns) * scale;
  const auto name = to_string(a.what, chunks);
  auto svg = fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\" "
      "fill-opacity=\"{:.2f}\" stroke=\"#fff\" stroke-width=\"0.5\"><title>{} on {}: {:.3f} ms</title></rect>\n",
      x, y, width, row_height, colour(a.what.what), opacity(a.what, chunks), name, to_string(line.shard),
      static_cast<double>(a.end_ns - a.start_ns) / 1e6);
  if (width >= narrowest_number)
    svg +=
        text(x + width / 2, y + row_height / 2 + 4, width >= narrowest_text ? name : std::to_string(a.what.micro_batch),
             "text-anchor=\"middle\" fill=\"#fff\" font-size=\"11\"");
  return svg;
}

std::string legend(const timelines& lines, const std::string& closing_words, double y) {
  std::string svg;
  double x = margin + label_width;
  for (const auto& c : colours) {
    if (!contains(lines, c.what)) continue;
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", x, y, c.colour);
    svg += text(x + 18, y + 10, c.meaning);
    x += 40 + 7.0 * static_cast<double>(c.meaning.size());
  }
  return svg + text(x, y + 10, "blank: idle. " + closing_words);
}

std::string escaped(std::string_view plain) {
  std::string html;
  for (const char c : plain) html += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return html;
}

}  // namespace

std::string timeline_svg(const std::vector<shard_timeline>& lines, const std::string& title,
                         const std::string& closing_words) {
  const auto span = makespan(lines);
  const auto chunks = chunks_of(lines);
  const double rows_height = static_cast<double>(lines.size()) * (row_height + row_gap);
  const double height = margin + title_height + rows_height + legend_height;
  auto svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
      "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#fff\"/>\n",
      picture_width, height);
  svg += text(margin, margin + 10, title, "font-weight=\"bold\"");
  double y = margin + title_height;
  for (const auto& line : lines) {
    svg += text(margin, y + row_height / 2 + 4, to_string(line.shard));
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"#f3f4f6\"/>\n",
                       margin + label_width, y, picture_width - label_width - 2 * margin, row_height);
    for (const auto& a : line.actions) svg += box(line, a, chunks, span, y);
    y += row_height + row_gap;
  }
  return svg + legend(lines, closing_words, y + 6) + "</svg>\n";
}

std::string timeline_svg(const step_report& step) {
  return timeline_svg(
      step.timelines,
      fmt::format("step {}: {} stages, {:.2f} ms", step.step, step.timelines.size(),
                  makespan(step.timelines).length_ns() / 1e6),
      fmt::format("Bubble {:.1f} % measured, {:.1f} % ideal", 100 * step.bubble, 100 * step.bubble_ideal));
}

std::string timeline_html(const std::deque<step_report>& steps, const std::string& title) {
  auto html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n"
      "<style>body{{font-family:sans-serif;margin:2em;background:#fff;color:#333}}svg{{max-width:100%;height:auto}}"
      "</style></head>\n<body><h1>{0}</h1>\n",
      escaped(title));
  if (steps.empty()) html += "<p>No step was recorded.</p>\n";
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) html += timeline_svg(*step);
  return html + "</body></html>\n";
}

}  // namespace troupe
