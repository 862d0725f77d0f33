// Bubble rates as a paper measured its models, and as virtual time predicts them from the times that the paper
// measured.

#include <fmt/format.h>

#include "actors/schedule/virtual_time.hpp"
#include "schedule_probe.hpp"

using namespace troupe;

namespace {

// Qi et al. 2023, Zero Bubble Pipeline Parallelism, arXiv:2401.10241. Eight stages.
struct setting {
  const char* model;
  std::uint32_t micro_batches, chunks;  // chunks: of a stage, interleaved; one transformer layer each
  stage_costs ms;                       // Table 9
  double one, interleaved, h1, h2;      // Table 5, bubble rates
};
const setting settings[] = {
    {"1.5B", 24, 3, {18.522, 18.086, 9.337, 0.601}, .2431, .1055, .1585, .1083},
    {"1.5B", 32, 3, {18.513, 18.086, 9.331, 0.626}, .1985, .0818, .1242, .0837},
    {"1.5B", 64, 3, {18.546, 18.097, 9.321, 0.762}, .1240, .0443, .0674, .0444},
    {"6.2B", 24, 4, {29.718, 29.444, 19.927, 0.527}, .2347, .0808, .1323, .0698},
    {"6.2B", 32, 4, {29.802, 29.428, 19.530, 0.577}, .1898, .0628, .1045, .0559},
    {"6.2B", 64, 4, {29.935, 29.621, 19.388, 0.535}, .1091, .0320, .0554, .0294},
};

void compare(const setting& s, const char* name, std::uint32_t chunks, double published, double margin) {
  const auto run = run_in_virtual_time(made(name, {8, s.micro_batches, chunks}), s.ms);
  REQUIRE(run);
  fmt::print("  {} p=8 m={:<3} {:<12} predicted {:.4f}  published {:.4f}  difference {:+.4f}\n", s.model,
             s.micro_batches, name, run->bubble_span, published, run->bubble_span - published);
  CHECK(run->bubble_span == Approx(published).margin(margin));
}

}  // namespace

TEST_CASE("the bubble rates of the zero-bubble paper follow from its times", "[schedule][table]") {
  fmt::print("bubble rate, arXiv:2401.10241: predicted from Table 9's times, published in Table 5\n");
  for (const auto& s : settings) {
    CAPTURE(s.model, s.micro_batches);
    compare(s, "1f1b", 1, s.one, 1e-4);
    compare(s, "zb-h1", 1, s.h1, 1e-4);
    compare(s, "zb-h2", 1, s.h2, 1e-4);
    // The paper counts less of the hops than a stage that waits for each of them.
    compare(s, "interleaved", s.chunks, s.interleaved, 4e-3);
  }
}
