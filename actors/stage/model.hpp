#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/layers/layer.hpp"
#include "kernels/layers/tensor_parallel.hpp"

namespace troupe {

/// Where a model's micro-batches come from. Every shard that needs data has a source of its own, and what it reads is a
/// function of (step, micro-batch) alone: nothing to keep in step, nothing to restore after a restart.
/// Used by one thread at a time.
class data_source {
public:
  virtual ~data_source() = default;
  virtual tensor_spec input() const = 0;   ///< of one micro-batch, for the first layer
  virtual tensor_spec target() const = 0;  ///< of one micro-batch, for the loss
  /// Rows that the loss of one micro-batch is summed over: class indices i32 [B, S] are B·S rows, values f32 [B, n] are
  /// B. A step's loss is the mean over the rows of all its micro-batches.
  virtual std::int64_t target_rows() const {
    const auto like = target();
    return like.type == dtype::i32 ? like.dims.elements() : like.dims.rows();
  }
  /// Fills host tensors of these specs; one that is not wanted is empty.
  virtual status read(std::uint64_t step, std::uint32_t micro_batch, const tensor& input, const tensor& target) = 0;
};

/// What a model is built from: the config's [model], [data] and [train] values that shape it.
struct model_settings {
  std::int64_t layers = 4, hidden = 128, heads = 4, seq_len = 128, vocab = 256;
  bool tied = true;
  std::string data_path;
  std::int64_t micro_batch = 1;   ///< sequences (or samples) of one micro-batch
  std::int64_t global_batch = 1;  ///< of one step
  std::int64_t steps = 1;
  std::uint64_t seed = 1;
  tensor_parallel shards = {};       ///< the layers are to be those of one tensor shard
  bool recompute_attention = false;  ///< attention's output is not to be kept between forward and backward
};

/// A model that a config can name (`model.kind`). Both functions are called in every worker and must give the same
/// answer in each. Errors: one sentence for a person; the run ends with exit code 2.
struct model_definition {
  std::string kind;
  std::function<result<layer_list>(const model_settings&)> layers;
  std::function<result<std::unique_ptr<data_source>>(const model_settings&)> data;
  bool can_be_cut = false;  ///< `layers` knows `model_settings::shards`; else parallel.tp must be 1
};

}  // namespace troupe
