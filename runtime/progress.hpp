#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "actors/run_listener.hpp"

namespace troupe {

struct progress_options {
  bool bar = false;  ///< one line, drawn again and again; otherwise a plain line every `print_every` steps
  bool colour = false;
  std::size_t columns = 80;
  std::uint64_t steps = 0;        ///< of the whole run
  std::int64_t print_every = 10;  ///< steps
};

/// What suits the file behind `descriptor`: a bar on a terminal that can move its cursor, colour unless NO_COLOR is
/// set.
progress_options terminal_options(int descriptor);

/// Tells a person how the run goes: a bar, drawn at most ten times a second, or plain lines; what happened, as lines.
/// A death's culprit sentence stands alone on its line, as it is.
class progress final : public run_listener {
public:
  using writer = std::function<void(std::string_view)>;
  using clock = std::function<std::chrono::steady_clock::time_point()>;

  progress(progress_options options, writer write, clock now = std::chrono::steady_clock::now);
  ~progress() override;  ///< leaves the cursor at the begin of a line
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  void step_committed(const step_report& report) override;
  void event(const run_event& what) override;
  /// A line of its own, above the bar where there is one.
  void note(std::string_view line);

private:
  void draw(const step_report& report);

  progress_options options_;
  writer write_;
  clock now_;
  std::string bar_;  // as drawn; empty: none on the screen
  std::chrono::steady_clock::time_point drawn_at_;
  double usual_step_s_ = 0;
};

/// "step=20 loss=3.2145 …": one line of plain progress, without line end.
std::string plain_line(const step_report& report);

/// The bar for `columns` columns, without control characters. `usual_step_s` gives the time that is left.
std::string bar_line(const step_report& report, std::uint64_t steps, double usual_step_s, std::size_t columns);

}  // namespace troupe
