// Speeds that others published, and what the cost model predicts for the same models and machines: printed side by
// side. One set of constants for all of them, `megatron_2021_cluster`.

#include <fmt/format.h>

#include "catch.hpp"
#include "runtime/planning/step_prediction.hpp"

using namespace troupe;
using namespace troupe::planning;

namespace {

/// A row of table 1 of Narayanan et al. 2021, "Efficient large-scale language model training on GPU clusters using
/// Megatron-LM", arXiv:2104.04473. Micro-batch and chunks: the script that its authors published for it
/// (Megatron-LM, examples/sc21/run_table_1.sh); the table does not name them.
struct scaling_row {
  double billions;
  std::int64_t hidden, layers, heads;
  std::uint32_t tensor, stages, devices;
  std::int64_t batch, micro_batch;
  std::uint32_t chunks;
  double tflops;  // published, per device; counts what is computed again
};

constexpr scaling_row scaling_table[] = {
    {1.7, 2304, 24, 24, 1, 1, 32, 512, 16, 1, 137},         {3.6, 3072, 30, 32, 2, 1, 64, 512, 16, 1, 138},
    {7.5, 4096, 36, 32, 4, 1, 128, 512, 16, 1, 142},        {18.4, 6144, 40, 48, 8, 1, 256, 1024, 8, 1, 135},
    {39.1, 8192, 48, 64, 8, 2, 512, 1536, 4, 1, 138},       {76.1, 10240, 60, 80, 8, 4, 1024, 1792, 2, 3, 140},
    {145.6, 12288, 80, 96, 8, 8, 1536, 2304, 2, 2, 148},    {310.1, 16384, 96, 128, 8, 16, 1920, 2160, 1, 2, 155},
    {529.6, 20480, 105, 128, 8, 35, 2520, 2520, 1, 3, 163}, {1008.0, 25600, 128, 160, 8, 64, 3072, 3072, 1, 1, 163},
};

training_plan plan_of(const scaling_row& r) {
  training_plan p;
  p.model = {r.layers, r.hidden, r.heads, 2048, 51'200, true};
  p.extents = {r.stages, r.devices / r.tensor / r.stages, r.tensor};
  p.chunks = r.chunks;
  p.micro_batch = r.micro_batch;
  p.global_batch = r.batch;
  p.schedule = r.chunks > 1 ? "interleaved" : "1f1b";
  p.recompute = recomputing::full;
  p.sequence_parallel = false;
  p.numbers = fp16_numbers;
  p.blocks = engine::megatron_2021;
  return p;
}

step_prediction predicted(const training_plan& p) {
  auto on = megatron_2021_cluster();
  on.nodes = 0;
  const auto where = place_plan(p, on);
  REQUIRE(where);
  auto step = predict_step(p, on, *where);
  REQUIRE(step);
  return std::move(*step);
}

}  // namespace

TEST_CASE("the weak scaling of Megatron-LM to a trillion parameters follows from one set of constants",
          "[planning][table]") {
  fmt::print(
      "arXiv:2104.04473, table 1: TFLOP/s of a device\n{:>9} {:>4} {:>4} {:>8} {:>10} {:>10} {:>11} {:>8} {:>7}\n",
      "billions", "tp", "pp", "devices", "predicted", "published", "difference", "step s", "bubble");
  for (const auto& row : scaling_table) {
    CAPTURE(row.billions);
    const auto step = predicted(plan_of(row));
    const auto tflops = step.hardware_flops_per_device_per_s / 1e12;
    fmt::print("{:>9} {:>4} {:>4} {:>8} {:>10.1f} {:>10} {:>+10.1f}% {:>8.2f} {:>6.1f}%\n", row.billions, row.tensor,
               row.stages, row.devices, tflops, row.tflops, 100 * (tflops / row.tflops - 1), step.step_s,
               100 * step.run.bubble_makespan);
    CHECK(tflops == Approx(row.tflops).epsilon(0.1));
  }
}

TEST_CASE("floating-point operations are counted as the paper counts them", "[planning][table]") {
  for (const auto& row : scaling_table) {
    auto p = plan_of(row);
    const auto with = predicted(p).hardware_flops_per_device_per_s * predicted(p).step_s * row.devices;
    const double b = static_cast<double>(row.batch), s = 2048, l = static_cast<double>(row.layers),
                 h = static_cast<double>(row.hidden), v = 51'200;
    CHECK(with == Approx(96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h))).epsilon(1e-9));
  }
}

TEST_CASE("the interleaved schedule gains what Megatron-LM measured, to a third", "[planning][table]") {
  // Figure 12: 175 billion parameters, tp 8, pp 12, 96 devices, 2 layers a chunk; read off the plot.
  struct gain {
    std::int64_t batch;
    double plain, interleaved;
  };
  fmt::print("arXiv:2104.04473, figure 12: TFLOP/s of a device, plain and interleaved\n");
  for (const auto& g : {gain{12, 81, 119}, gain{60, 136, 147}}) {
    CAPTURE(g.batch);
    const auto tflops = [&](std::uint32_t chunks) {
      const scaling_row row{175, 12'288, 96, 96, 8, 12, 96, g.batch, 1, chunks, 0};
      return predicted(plan_of(row)).hardware_flops_per_device_per_s / 1e12;
    };
    const auto plain = tflops(1), interleaved = tflops(4);
    const auto published = g.interleaved / g.plain - 1, own = interleaved / plain - 1;
    fmt::print("  batch {:>2}: predicted {:.0f} to {:.0f}, {:+.1f} %   published {} to {}, {:+.1f} %\n", g.batch, plain,
               interleaved, 100 * own, g.plain, g.interleaved, 100 * published);
    CHECK(own > 0);
    CHECK(own == Approx(published).epsilon(1.0 / 3));
  }
}

TEST_CASE("speeds that no constant was fitted to are predicted too", "[planning][table]") {
  // Figure 11: three layers a stage, tp 8, read off the plot; figure 13: 162 billion parameters on 64 devices.
  struct point {
    const char* figure;
    std::int64_t layers;
    std::uint32_t tensor, stages;
    std::int64_t batch;
    double tflops;
  };
  fmt::print("arXiv:2104.04473, figures 11 and 13: TFLOP/s of a device\n");
  for (const auto& f :
       {point{"11", 3, 8, 1, 8, 162}, point{"11", 24, 8, 8, 8, 88}, point{"11", 3, 8, 1, 128, 178},
        point{"11", 24, 8, 8, 128, 160}, point{"13", 32, 8, 8, 32, 142}, point{"13", 32, 8, 8, 128, 166}}) {
    const scaling_row row{0, 20'480, f.layers, 128, f.tensor, f.stages, f.tensor * f.stages, f.batch, 1, 1, 0};
    const auto tflops = predicted(plan_of(row)).hardware_flops_per_device_per_s / 1e12;
    CAPTURE(f.figure, f.stages, f.batch);
    fmt::print("  figure {} tp {} pp {} batch {:>3}: predicted {:.0f}   published {}, difference {:+.1f} %\n", f.figure,
               f.tensor, f.stages, f.batch, tflops, f.tflops, 100 * (tflops / f.tflops - 1));
    CHECK(tflops == Approx(f.tflops).epsilon(0.125));
  }
}

TEST_CASE("the best layouts that Megatron-LM measured are the best predicted", "[planning][table]") {
  // Figure 13: of the ways to cut 64 devices into tp · pp that keep tensor shards in a node, tp 8 is best.
  for (const std::int64_t batch : {32, 128}) {
    const auto tflops = [&](std::uint32_t tensor) {
      const scaling_row row{0, 20'480, 32, 128, tensor, 64 / tensor, 64, batch, 1, 1, 0};
      return predicted(plan_of(row)).hardware_flops_per_device_per_s / 1e12;
    };
    fmt::print("figure 13, batch {}: tp 2, 4, 8 predicted {:.0f} {:.0f} {:.0f}\n", batch, tflops(2), tflops(4),
               tflops(8));
    CHECK(tflops(8) > tflops(4));
    CHECK(tflops(4) > tflops(2));
  }
  // Figure 16: 91 billion parameters, tp 8, pp 8: a micro-batch of 2. With the small batch the model prefers 1, by 3 %.
  for (const std::int64_t batch : {128, 512}) {
    const auto tflops = [&](std::int64_t micro_batch) {
      const scaling_row row{0, 15'360, 32, 128, 8, 8, 64, batch, micro_batch, 1, 0};
      return predicted(plan_of(row)).hardware_flops_per_device_per_s / 1e12;
    };
    const auto one = tflops(1), two = tflops(2), four = tflops(4);
    fmt::print("figure 16, batch {}: micro-batch 1, 2, 4 predicted {:.0f} {:.0f} {:.0f}, 2 measured best\n", batch, one,
               two, four);
    CHECK(two > four);
    CHECK(two > (batch == 512 ? one : 0.96 * one));
  }
}

TEST_CASE("times of a stage's passes are near those of the zero-bubble paper", "[planning][table]") {
  // Qi et al. 2023, arXiv:2401.10241, table 9 (A100, eight stages, sequences of 1024; the first of each model's rows).
  // Its first and last stage are one layer short, so that the stages between have (layers + 2) / 8.
  struct pass_times {
    const char* name;
    std::int64_t layers, heads, hidden, micro_batch;
    double forward, input, weight;  // ms
  };
  fmt::print("arXiv:2401.10241, table 9: ms of F, B and W\n");
  for (const auto& t : {pass_times{"1.5B", 22, 24, 2304, 6, 18.522, 18.086, 9.337},
                        pass_times{"6.2B", 30, 32, 4096, 3, 29.718, 29.444, 19.927}}) {
    training_plan p;
    p.model = {t.layers, t.hidden, t.heads, 1024, 50'304, true};
    p.micro_batch = t.micro_batch;
    p.numbers = fp16_numbers;
    p.blocks = engine::megatron_2021;
    chunk_costs layer;
    layer.costs = block_costs(p);
    layer.pieces = 1;
    const auto s = seconds_of(p, megatron_2021_cluster(), layer, 0);
    const double layers = static_cast<double>(t.layers + 2) / 8 * 1e3;
    const double own[] = {s.forward * layers, s.backward_input * layers, s.backward_weight * layers};
    fmt::print("  {}: predicted {:.1f} {:.1f} {:.1f}   published {:.1f} {:.1f} {:.1f}\n", t.name, own[0], own[1],
               own[2], t.forward, t.input, t.weight);
    CHECK(own[0] == Approx(t.forward).epsilon(0.25));
    CHECK(own[1] == Approx(t.input).epsilon(0.25));
    CHECK(own[2] == Approx(t.weight).epsilon(0.25));
  }
}
