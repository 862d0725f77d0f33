#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/collectives/communicator.hpp"
#include "kernels/core/tensor.hpp"
#include "kernels/ops/backend.hpp"

namespace troupe {

/// How a parameter gets its first values. Normal and uniform numbers depend on (seed, parameter name, element) alone.
struct initial_value {
  enum class kind : std::uint8_t { constant, normal, uniform };
  kind how = kind::constant;
  float amount = 0;  ///< the constant, the standard deviation, or the bound
};

/// A parameter that a layer asks for. Its name is global: two layers that name the same parameter share it (tied
/// weights), wherever in the pipeline they run; dims and rule must then agree.
struct parameter_spec {
  std::string name;  ///< "h.3.attn.c_attn.weight"
  shape dims;        ///< f32 elements
  initial_value init;
  bool decay = false;  ///< weight decay applies
  /// Where tensor shards cut the parameter: `dims` is what this shard holds, `whole` the uncut extents (rank 0: not
  /// cut), `slice` which elements of it are here.
  shape whole = {};
  element_slice slice = {};
  /// Each shard computes a part of the gradient of a parameter that all of them hold: the parts are summed.
  bool partial_gradient = false;

  bool cut() const noexcept { return whole.rank() != 0; }
};

/// A layer's view of one of its parameters, in the order it declared them.
struct parameter_view {
  tensor value;     ///< read only during forward and backward
  tensor gradient;  ///< add to it; never overwrite
};

/// What a layer keeps of one micro-batch from its forward to its backward: tensors in numbered slots.
/// Put what the backward needs, take it (which frees it) as soon as it was used for the last time.
class kept_tensors {
public:
  void put(std::size_t slot, tensor t) {
    if (slots_.size() <= slot) slots_.resize(slot + 1);
    slots_[slot] = std::move(t);
  }
  const tensor& at(std::size_t slot) const { return slots_.at(slot); }
  tensor take(std::size_t slot) { return std::exchange(slots_.at(slot), tensor()); }
  void clear() {
    for (auto& t : slots_) t = tensor();
  }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const auto& t : slots_) sum += t ? t.bytes() : 0;
    return sum;
  }

private:
  std::vector<tensor> slots_;
};

/// What a layer may use during one call.
struct layer_call {
  backend& ops;                                // the shard's device
  buffer_pool& memory;                         // where outputs, kept and scratch tensors come from
  std::span<const parameter_view> parameters;  // this layer's, in declared order
  const tensor& target;                        // the micro-batch's targets; empty but on the last layer
  float loss_scale = 1.0F;                     // 1 / (target rows of the whole step): losses and gradients carry it
  communicator* group = nullptr;  // the stage\'s tensor shards, where it has several; tensors of `memory` fit it
};

/// One indivisible piece of a model; a stage is a run of consecutive layers. Layers hold configuration only: values,
/// gradients and kept tensors come in with each call, so one layer serves many micro-batches in flight. The last layer
/// of a model is its loss: its output is f32 [1], already times `loss_scale`, and its backward gets an empty `dy`.
/// A layer may overwrite `x` or `dy` where it alone holds it (`unique()`); a caller that still needs one keeps a second
/// reference. Called on the shard's thread. An error (or an exception, which is caught) fails the shard with its text.
class layer {
public:
  virtual ~layer() = default;

  /// Unique in its model, for messages and traces: "h.3".
  virtual std::string name() const = 0;
  virtual std::vector<parameter_spec> parameters() const { return {}; }
  /// What `forward` makes of such an input, or why it cannot.
  virtual result<tensor_spec> output(const tensor_spec& input) const = 0;
  /// Floating-point operations of one forward on such an input: stages are balanced by it.
  virtual double forward_flops(const tensor_spec& input) const = 0;
  /// Bytes that `forward` keeps of one micro-batch (beyond its input tensor, where it keeps that too).
  virtual std::size_t kept_bytes(const tensor_spec& input) const = 0;

  virtual result<tensor> forward(layer_call& call, const tensor& x, kept_tensors& keep) = 0;
  /// The gradient of the input. Leaves in `keep` what `backward_weight` needs, frees the rest. A model's first layer
  /// returns an empty tensor.
  virtual result<tensor> backward_input(layer_call& call, const tensor& dy, kept_tensors& keep) = 0;
  /// Adds to the gradients of this layer's parameters; frees everything kept. Called once after each `backward_input`,
  /// at once or later.
  virtual status backward_weight(layer_call& call, kept_tensors& keep) {
    (void)call;
    keep.clear();
    return {};
  }
};

/// A model: its layers, first to last, the last one being the loss.
using layer_list = std::vector<std::unique_ptr<layer>>;

}  // namespace troupe
