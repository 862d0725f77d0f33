#include "runtime/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace troupe {
namespace {

constexpr auto between_drawings = std::chrono::milliseconds(100);
constexpr std::string_view clear_line = "\r\x1b[2K", red = "\x1b[31m", plain = "\x1b[0m";
constexpr std::size_t widest_bar = 30, narrowest_bar = 5;

/// "987", "12.3k", "4.5M".
std::string short_number(double value) {
  if (value >= 1e6) return fmt::format("{:.1f}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.0f}", value);
}

/// "1:02:03", "2:03".
std::string clock_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9));
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

progress_options terminal_options(int descriptor) {
  progress_options options;
  options.bar = ::isatty(descriptor) == 1 && variable("TERM") != "dumb";
  options.colour = options.bar && variable("NO_COLOR").empty();
  winsize size{};
  if (options.bar && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) options.columns = size.ws_col;
  return options;
}

progress::progress(progress_options options, writer write, clock now)
    : options_(options), write_(std::move(write)), now_(std::move(now)) {}

progress::~progress() {
  if (!bar_.empty()) write_("\n");
}

void progress::step_committed(const step_report& report) {
  usual_step_s_ = usual_step_s_ == 0 ? report.step_s : 0.9 * usual_step_s_ + 0.1 * report.step_s;
  const bool last = report.step + 1 == options_.steps;
  if (options_.bar) {
    if (last || bar_.empty() || now_() - drawn_at_ >= between_drawings) draw(report);
  } else if (last || report.step % static_cast<std::uint64_t>(options_.print_every) == 0) {
    note(plain_line(report));
  }
}

void progress::draw(const step_report& report) {
  drawn_at_ = now_();
  bar_ = bar_line(report, options_.steps, usual_step_s_, options_.columns);
  write_(fmt::format("{}{}", clear_line, bar_));
}

void progress::event(const run_event& what) {
  if (what.kind == event_kind::committed) return;  // the bar and the plain lines tell
  const auto line = what.text.empty() ? std::string(to_string(what.kind)) : what.text;
  const bool alarm = options_.colour && (what.kind == event_kind::down || what.kind == event_kind::gave_up);
  note(alarm ? fmt::format("{}{}{}", red, line, plain) : line);
}

void progress::note(std::string_view line) {
  write_(bar_.empty() ? fmt::format("{}\n", line) : fmt::format("{}{}\n{}", clear_line, line, bar_));
}

std::string plain_line(const step_report& r) {
  return fmt::format(
      "step={} loss={:.6g} grad_norm={:.4g} lr={:.4g} tokens_per_s={:.0f} step_s={:.4g} bubble={:.3f} "
      "bubble_ideal={:.3f} restarts={}",
      r.step, r.loss, r.grad_norm, r.learning_rate, r.tokens_per_s, r.step_s, r.bubble, r.bubble_ideal, r.restarts);
}

std::string bar_line(const step_report& r, std::uint64_t steps, double usual_step_s, std::size_t columns) {
  const auto done = std::min(r.step + 1, steps);
  const auto room = columns > 1 ? columns - 1 : 1;  // the last column stays free: some terminals wrap when it is filled
  auto line = fmt::format("{}/{}", done, steps);
  const auto add_if_it_fits = [&](const std::string& part) {
    if (line.size() + 2 + part.size() <= room) line += "  " + part;
  };
  add_if_it_fits(fmt::format("loss {:.4f}", r.loss));
  add_if_it_fits(fmt::format("ETA {}", clock_text(usual_step_s * static_cast<double>(steps - done))));
  add_if_it_fits(fmt::format("restarts {}", r.restarts));
  add_if_it_fits(fmt::format("{} tok/s", short_number(r.tokens_per_s)));
  add_if_it_fits(fmt::format("bubble {:.0f} % (ideal {:.0f} %)", 100 * r.bubble, 100 * r.bubble_ideal));
  const auto width = room > line.size() + 3 ? std::min(widest_bar, room - line.size() - 3) : 0;
  if (width >= narrowest_bar && steps > 0) {
    const auto filled = done * width / steps;
    line = fmt::format("[{}{}] {}", std::string(filled, '='), std::string(width - filled, ' '), line);
  }
  return line.substr(0, room);
}

}  // namespace troupe
