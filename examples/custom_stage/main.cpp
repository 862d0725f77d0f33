// A regression whose best loss is known: the targets are a small tanh network of the inputs, plus ±0.1 that no input
// tells. A student of the same shape can learn the network and nothing of the rest, so its loss falls to 0.01 and stays
// there.
//
//   custom_stage run examples/custom_stage/regression.toml

#include "runtime/main.hpp"
#include "kernels/layers/mean_squared_error.hpp"
#include "tanh_stage.hpp"

namespace {

constexpr std::int64_t inputs = 4;

// A number in [−1, 1) for each (sample, index), the same in every process.
float noise_of(std::uint64_t sample, std::uint64_t index) {
  std::uint64_t x = sample * 0x9E3779B97F4A7C15U + index * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return static_cast<float>(static_cast<double>((x ^ (x >> 31)) >> 40) / (1 << 23) - 1);
}

class teacher final : public troupe::data_source {
public:
  explicit teacher(const troupe::model_settings& s) : settings_(s) {}
  troupe::tensor_spec input() const override { return {troupe::dtype::f32, {settings_.micro_batch, inputs}}; }
  troupe::tensor_spec target() const override { return {troupe::dtype::f32, {settings_.micro_batch, 1}}; }

  troupe::status read(std::uint64_t step, std::uint32_t micro_batch, const troupe::tensor& input,
                      const troupe::tensor& target) override {
    for (std::int64_t b = 0; b < settings_.micro_batch; ++b) {
      const auto sample = step * static_cast<std::uint64_t>(settings_.global_batch) +
                          micro_batch * static_cast<std::uint64_t>(settings_.micro_batch) +
                          static_cast<std::uint64_t>(b);
      float x[inputs];
      for (std::uint64_t i = 0; i < inputs; ++i) x[i] = noise_of(sample, i);
      if (input) std::copy_n(x, inputs, input.data<float>() + b * inputs);
      if (target)
        target.data<float>()[b] =
            std::tanh(x[0] + x[1]) - std::tanh(x[2] - 0.5F * x[3]) + (sample % 2 == 0 ? 0.1F : -0.1F);
    }
    return {};
  }

private:
  troupe::model_settings settings_;
};

troupe::result<troupe::layer_list> layers(const troupe::model_settings& s) {
  troupe::layer_list list;
  list.push_back(std::make_unique<tanh_stage>("first", inputs, s.hidden));
  list.push_back(std::make_unique<tanh_stage>("second", s.hidden, s.hidden));
  list.push_back(std::make_unique<troupe::linear>("last", s.hidden, 1));
  list.push_back(std::make_unique<troupe::mean_squared_error>("loss"));
  return list;
}

}  // namespace

int main(int argc, char** argv) {
  return troupe::main(argc, argv,
                      {{"regression", layers,
                        [](const troupe::model_settings& s) -> troupe::result<std::unique_ptr<troupe::data_source>> {
                          return std::unique_ptr<troupe::data_source>(std::make_unique<teacher>(s));
                        }}});
}
