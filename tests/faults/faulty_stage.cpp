// A program with a model of its own whose third layer misbehaves in step 2 at micro-batch 1, as STAGE_FAULT says: exit,
// abort, refuse or throw.

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "kernels/layers/linear.hpp"
#include "kernels/layers/mean_squared_error.hpp"
#include "runtime/main.hpp"

namespace {

using namespace troupe;

class faulty_layer final : public layer {
public:
  explicit faulty_layer(std::int64_t width) : linear_("faulty", width, 1) {}
  std::string name() const override { return linear_.name(); }
  std::vector<parameter_spec> parameters() const override { return linear_.parameters(); }
  result<tensor_spec> output(const tensor_spec& in) const override { return linear_.output(in); }
  double forward_flops(const tensor_spec& in) const override { return linear_.forward_flops(in); }
  std::size_t kept_bytes(const tensor_spec& in) const override { return linear_.kept_bytes(in); }
  result<tensor> forward(layer_call& call, const tensor& x, kept_tensors& keep) override {
    constexpr int micro_batches = 4;
    if (forwards_++ == 2 * micro_batches + 1) TROUPE_CHECK(misbehave());
    return linear_.forward(call, x, keep);
  }
  result<tensor> backward_input(layer_call& call, const tensor& dy, kept_tensors& keep) override {
    return linear_.backward_input(call, dy, keep);
  }
  status backward_weight(layer_call& call, kept_tensors& keep) override { return linear_.backward_weight(call, keep); }

private:
  static status misbehave() {
    const char* variable = std::getenv("STAGE_FAULT");
    const std::string how = variable != nullptr ? variable : "";
    if (how == "exit") ::_exit(7);
    if (how == "abort") std::abort();
    if (how == "throw") throw std::runtime_error("the stage threw on purpose");
    if (how == "refuse") return error{errc::stage_failed, "the stage refuses on purpose"};
    return {};
  }
  linear linear_;
  int forwards_ = 0;
};

class ones final : public data_source {
public:
  explicit ones(const model_settings& s) : settings_(s) {}
  tensor_spec input() const override { return {dtype::f32, {settings_.micro_batch, settings_.hidden}}; }
  tensor_spec target() const override { return {dtype::f32, {settings_.micro_batch, 1}}; }
  status read(std::uint64_t, std::uint32_t, const tensor& input, const tensor& target) override {
    for (const auto& t : {input, target})
      if (t)
        for (std::int64_t i = 0; i < t.elements(); ++i) t.data<float>()[i] = 1;
    return {};
  }

private:
  model_settings settings_;
};

result<layer_list> layers(const model_settings& s) {
  layer_list list;
  list.push_back(std::make_unique<linear>("first", s.hidden, s.hidden));
  list.push_back(std::make_unique<linear>("second", s.hidden, s.hidden));
  list.push_back(std::make_unique<faulty_layer>(s.hidden));
  list.push_back(std::make_unique<mean_squared_error>("loss"));
  return list;
}

result<std::unique_ptr<data_source>> data(const model_settings& s) {
  return std::unique_ptr<data_source>(std::make_unique<ones>(s));
}

}  // namespace

int main(int argc, char** argv) { return troupe::main(argc, argv, {{"faulty", layers, data}}); }
