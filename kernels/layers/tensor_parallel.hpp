#pragma once

#include "kernels/layers/layer.hpp"

namespace troupe {

/// How the layers of a stage are cut over its tensor shards: matrices by columns where a parallel region begins and by
/// rows where it ends, so that a region costs one reduction. With `sequence`, activations outside the regions are cut
/// too: shard t holds rows t·R/size … of the R = B·S rows, as f32 [R/size, H].
/// Sources: Shoeybi et al. 2019, arXiv:1909.08053, section 3; Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.
struct tensor_parallel {
  std::uint32_t size = 1, rank = 0;
  bool sequence = false;

  bool alone() const noexcept { return size == 1; }
};

/// The group that a call must bring where layers are cut. Errors: `invalid_argument`.
result<communicator*> group_of(const layer_call& call, const tensor_parallel& tp);

/// What a parallel region works on: every row of `x`. f32 `whole`. Gathers the rows where they are cut; else `x`.
result<tensor> all_rows(layer_call& call, const tensor_parallel& tp, const tensor& x, const shape& whole);
/// What a region leaves behind: the sum of all shards' `partial`, whose place may be reused; of `local` extents.
result<tensor> sum_of_shards(layer_call& call, const tensor_parallel& tp, tensor partial, const shape& local);
/// This shard's rows of `whole` f32 [..., n]; all of them where rows are not cut. Shares the bytes.
tensor own_rows(const tensor_parallel& tp, const tensor& whole);

/// This shard's columns of a matrix [rows, columns] that is `blocks` matrices side by side, each cut alike.
parameter_spec column_slice(const tensor_parallel& tp, parameter_spec whole, std::int64_t blocks = 1);
/// This shard's rows of a matrix or vector; where they do not divide, the last shards' are padded with zeros.
parameter_spec row_slice(const tensor_parallel& tp, parameter_spec whole);
/// A parameter that every shard has whole. Where rows are cut, each shard sees a part of its gradient.
parameter_spec replicated(const tensor_parallel& tp, parameter_spec whole);

/// The classes of a vocabulary whose rows `row_slice` gave to this shard.
vocabulary_slice classes_of(const tensor_parallel& tp, std::int64_t vocabulary);

}  // namespace troupe
