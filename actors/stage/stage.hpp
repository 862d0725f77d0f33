#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/stage/gradient_layout.hpp"
#include "actors/stage/parameter_table.hpp"
#include "kernels/layers/layer.hpp"
#include "kernels/ops/backend.hpp"

namespace troupe {

/// What a stage needs beside its layers.
struct stage_settings {
  std::size_t stage = 0;            ///< which one of the split
  std::uint32_t micro_batches = 1;  ///< of a step
  float loss_scale = 1;             ///< 1 / target rows of a step
  std::uint64_t seed = 1;
  float beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F, weight_decay = 0;
  communicator* group = nullptr;            ///< its tensor shards, where it has several; must outlive the stage
  std::uint32_t replica = 0, replicas = 1;  ///< of the whole pipeline
  /// ZeRO-1: each replica keeps the optimizer's state of its share of the parameters only, and updates only that.
  /// Source: Rajbhandari et al. 2020, arXiv:1910.02054.
  bool split_optimizer = false;
  /// Layers keep their input alone between forward and backward, and run again before the backward.
  bool recompute = false;
  std::int64_t bucket_elements = 1 << 21;  ///< replicas exchange gradients in pieces of about this size
};

/// A committed update: what every stage does to its parameters after step `step` (from 0).
struct update_rule {
  std::uint64_t step = 0;
  float learning_rate = 0;
  float gradient_scale = 1;
};

/// A run of layers with their parameters, gradients, optimizer state and the kept tensors of each micro-batch in
/// flight. Knows nothing of messages and actors: a test drives it by hand. One thread uses it. What crosses its
/// boundary (inputs, targets, outputs, gradients of both) are host tensors; where `ops` is no CPU's they are copied
/// here.
class stage {
public:
  /// Takes stage `settings.stage` of `model` (all layers of the whole model; the others are dropped) and gives its
  /// parameters their first values. `ops` must outlive it.
  static result<stage> make(layer_list model, const stage_split& split, const parameter_table& table,
                            const tensor_spec& model_input, backend& ops, const stage_settings& settings);

  const tensor_spec& input_spec() const noexcept { return specs_.front(); }
  const tensor_spec& output_spec() const noexcept { return specs_.back(); }
  bool first() const noexcept { return settings_.stage == 0; }
  bool last() const noexcept { return last_; }

  /// Runs the layers. `target` is empty but on the last stage, where the result is the loss f32 [1], on the device.
  result<tensor> forward(std::uint32_t micro_batch, tensor input, const tensor& target);
  /// Layer by layer: gradient of the input, then of the weights. `output_gradient` is empty on the last
  /// stage, the result on the first.
  result<tensor> backward(std::uint32_t micro_batch, tensor output_gradient);
  /// The two halves of `backward`; together they give the same bits.
  result<tensor> backward_input(std::uint32_t micro_batch, tensor output_gradient);
  status backward_weight(std::uint32_t micro_batch);

  /// The loss f32 [1] that the last stage's `forward` returned, on the host; waits for the device.
  status read_loss(const tensor& loss, float& value);

  /// A gradient of a parameter that another stage shares, for that stage. Valid until the next `apply`.
  struct shared_use {
    std::size_t use = 0;                    ///< index into the table's uses
    std::vector<std::size_t> other_stages;  ///< who needs it
    tensor gradient;                        ///< on the device
  };
  const std::vector<shared_use>& shared_uses() const noexcept { return shared_uses_; }
  /// Uses on other stages whose gradients this stage must be given by `add_shared` before `squared_norms`.
  const std::vector<std::size_t>& awaited_uses() const noexcept { return awaited_uses_; }
  tensor_spec spec_of_use(std::size_t use) const;
  std::size_t stage_of_use(std::size_t use) const;

  /// Adds up the gradients of shared parameters in canonical order; `awaited` in the order of `awaited_uses`, on the
  /// host.
  status combine_shared(std::span<const tensor> awaited);

  // --- replicas: how their gradients become one sum ---
  // Bucket by bucket, each replica adds up its own share of all replicas' gradients, in their order, and (without
  // ZeRO-1) gives the sum to the others. The exchange itself is the executor's.

  /// Runs when a bucket's gradients are complete in this replica: during the last micro-batch's backward, or in
  /// `combine_shared`.
  void when_bucket_ready(std::function<status(std::size_t bucket)> ready) { bucket_ready_ = std::move(ready); }
  std::size_t buckets() const noexcept { return settings_.replicas == 1 ? 0 : layout_.buckets.size(); }
  /// Elements of `replica`'s share of a bucket.
  std::int64_t share_elements(std::size_t bucket, std::uint32_t replica) const {
    return layout_.share(bucket, replica, settings_.replicas).count;
  }
  /// This replica's gradients of `replica`'s share, on the host; f32. On the CPU a view, valid until `apply`.
  result<tensor> gradient_share(std::size_t bucket, std::uint32_t replica);
  /// Adds up this replica's share: `parts` has one host tensor a replica, its own being empty.
  status sum_share(std::size_t bucket, std::span<const tensor> parts);
  /// Takes over the sum that `replica` made of its share.
  status take_share(std::size_t bucket, std::uint32_t replica, const tensor& sum);
  /// With ZeRO-1, after `apply`: the updated parameters of this replica's share on the host; and taking over another's.
  result<tensor> parameter_share(std::size_t bucket);
  status take_parameter_share(std::size_t bucket, std::uint32_t replica, const tensor& values);

  // --- the state, in units: for who keeps a copy of it, and for files ---
  // A unit is a stretch of what this replica updates: a bucket, or with ZeRO-1 its share of one. Flat f32 tensors.

  enum class state_part : std::uint8_t { value, moment1, moment2, gradient };
  std::size_t units() const noexcept { return owned_.size(); }
  std::int64_t unit_elements(std::size_t unit) const { return owned_[unit].count; }
  /// On the host; on the CPU a view, valid until `apply`. The gradient is final once `squared_norms` may be asked.
  result<tensor> unit(state_part part, std::size_t unit);
  /// Takes over a unit's values from a host tensor.
  status take_unit(state_part part, std::size_t unit, const tensor& values);
  /// A copy of a host tensor that later updates do not touch.
  result<tensor> detached(const tensor& t);

  struct parameter_norm {
    std::size_t parameter = 0;  ///< canonical index
    double squared = 0;
  };
  /// Of what this shard and replica counts: every element of the model is counted once in the whole mesh. A parameter
  /// may have several entries, in ascending order of elements.
  result<std::vector<parameter_norm>> squared_norms();

  /// One AdamW update, then gradients are zero again.
  status apply(const update_rule& rule);

  struct named_parameter {
    std::size_t parameter = 0;
    parameter_spec spec;
    tensor value;
  };
  /// In canonical order; device tensors, shared with the stage.
  const std::vector<named_parameter>& parameters() const noexcept { return parameters_; }

  /// A stretch of one parameter that this replica updates: all of it, or with ZeRO-1 where it meets this replica's
  /// shares. Device tensors f32 [count], shared with the stage.
  struct update_piece {
    std::size_t parameter = 0;  ///< index into `parameters()`
    std::int64_t first = 0;     ///< element of it
    tensor value, gradient, moment1, moment2;
  };
  const std::vector<update_piece>& pieces() const noexcept { return pieces_; }

  /// A device tensor's values in host memory, for a message or a file; waits for the device. On the CPU the tensor
  /// itself.
  result<tensor> to_host(tensor t);

  buffer_pool& memory() noexcept { return *memory_; }
  /// Where host tensors that come to this stage are best received.
  std::shared_ptr<memory_source> staging_memory() const { return ops_->staging_memory(); }
  /// Bytes of kept tensors of one micro-batch, as the layers predict them, their inputs included.
  std::size_t predicted_kept_bytes() const;
  /// Bytes of kept tensors now, over all micro-batches.
  std::size_t kept_bytes() const;

private:
  struct layer_state {
    std::unique_ptr<layer> code;
    bool recompute = false;
    std::vector<parameter_view> views;
    std::vector<std::size_t> view_of;       // beside views: index into parameters_
    std::vector<tensor> partial_gradients;  // that tensor shards must sum
    std::vector<kept_tensors> kept;         // [micro_batch]
    std::vector<tensor> inputs;             // [micro_batch], with recompute
    std::uint32_t weights_done = 0;         // micro-batches of this step
  };
  struct slot {
    bool decay = false;
    bool norm_here = false;
    tensor total;                     // the gradient that norm and update use
    std::vector<std::size_t> sum_of;  // uses to add into `total`; empty where there is just one
    bool complete = false;            // `total` has this replica's whole gradient of the step
  };

  stage() = default;
  bool on_host() const { return ops_->where().kind == device_kind::cpu; }
  /// A host tensor's values on the device, in stream order. On the CPU the tensor itself.
  result<tensor> to_device(tensor t);
  layer_call call_for(layer_state& l, const tensor& target) {
    return {*ops_, *memory_, l.views, target, settings_.loss_scale, settings_.group};
  }
  status add_parameters(const parameter_table& table, std::size_t first_layer);
  status lay_out_memory(const parameter_table& table, const std::vector<std::size_t>& mine);
  status add_uses(const parameter_table& table, std::size_t first_layer, const std::vector<std::size_t>& place);
  status make_pieces();
  tensor state_of(state_part part, std::size_t unit) const;
  tensor gradients_of(const flat_range& r) const { return gradients_.slice(r.first, r.count); }
  status backward_input_of(layer_state& l, std::uint32_t micro_batch, tensor& dy);
  status backward_weight_of(layer_state& l, std::uint32_t micro_batch);
  status complete(layer_state& l);
  status announce_ready_buckets();
  status give_first_values(const parameter_spec& spec, const tensor& value);

  backend* ops_ = nullptr;
  std::unique_ptr<buffer_pool> memory_, staging_;
  stage_settings settings_;
  bool last_ = false;
  std::vector<tensor_spec> specs_;
  std::vector<layer_state> layers_;
  std::vector<named_parameter> parameters_;
  std::vector<slot> slots_;  // beside parameters_
  gradient_layout layout_;
  tensor values_, gradients_, moments1_, moments2_;  // flat; moments of what this replica updates
  std::vector<update_piece> pieces_;
  std::vector<flat_range> owned_;           // [unit]: what this replica updates
  std::vector<std::int64_t> owned_moment_;  // [unit]: where its moments begin
  struct norm_piece {
    std::size_t parameter = 0;  // canonical index
    tensor gradient;
  };
  std::vector<norm_piece> norm_pieces_;
  std::function<status(std::size_t)> bucket_ready_;
  std::size_t announced_buckets_ = 0;
  std::vector<shared_use> shared_uses_;
  std::vector<std::size_t> awaited_uses_;
  struct use_place {
    std::size_t use = 0, stage = 0;
    tensor_spec spec;
  };
  std::vector<use_place> shared_places_;                       // every use of a shared parameter that is used here
  std::vector<std::pair<std::size_t, tensor>> own_gradients_;  // of shared uses: (use, gradient)
  tensor no_target_;
};

}  // namespace troupe
