#include "kernels/layers/tensor_parallel.hpp"

#include <algorithm>
#include <array>

namespace troupe {

namespace {

std::int64_t rows_each(const tensor_parallel& tp, std::int64_t rows) { return (rows + tp.size - 1) / tp.size; }

}  // namespace

result<communicator*> group_of(const layer_call& call, const tensor_parallel& tp) {
  if (call.group && call.group->size() == tp.size && call.group->rank() == tp.rank) return call.group;
  return invalid("a layer cut over tensor shards was called without its group");
}

result<tensor> all_rows(layer_call& call, const tensor_parallel& tp, const tensor& x, const shape& whole) {
  if (!tp.sequence || tp.alone()) return x;
  TROUPE_TRY(auto* group, group_of(call, tp));
  TROUPE_TRY(tensor y, tensor::make(call.memory, {x.type(), whole}));
  TROUPE_CHECK(group->all_gather(x, y));
  return y;
}

result<tensor> sum_of_shards(layer_call& call, const tensor_parallel& tp, tensor partial, const shape& local) {
  if (tp.alone()) return partial;
  TROUPE_TRY(auto* group, group_of(call, tp));
  if (!tp.sequence) {
    TROUPE_CHECK(group->all_reduce(partial));
    return partial;
  }
  TROUPE_TRY(tensor y, tensor::make(call.memory, {partial.type(), local}));
  TROUPE_CHECK(group->reduce_scatter(partial, y));
  return y;
}

tensor own_rows(const tensor_parallel& tp, const tensor& whole) {
  if (!tp.sequence || tp.alone()) return whole;
  const auto n = whole.dims().back(), rows = whole.dims().rows() / tp.size;
  return whole.slice(tp.rank * rows * n, rows * n).reshaped({rows, n});
}

parameter_spec column_slice(const tensor_parallel& tp, parameter_spec whole, std::int64_t blocks) {
  if (tp.alone()) return whole;
  const auto columns = whole.dims.back() / blocks, own = columns / tp.size;
  whole.slice = {tp.rank * own, own, columns, whole.dims.elements()};
  whole.whole = whole.dims;
  whole.dims = whole.dims.rank() == 1 ? shape{blocks * own} : shape{whole.dims[0], blocks * own};
  return whole;
}

parameter_spec row_slice(const tensor_parallel& tp, parameter_spec whole) {
  if (tp.alone()) return whole;
  const auto rows = rows_each(tp, whole.dims[0]), n = whole.dims.elements() / whole.dims[0];
  whole.slice.first = tp.rank * rows * n;
  whole.slice.end = whole.dims.elements();
  whole.whole = whole.dims;
  whole.dims = whole.dims.rank() == 1 ? shape{rows} : shape{rows, n};
  return whole;
}

parameter_spec replicated(const tensor_parallel& tp, parameter_spec whole) {
  whole.partial_gradient = tp.sequence && !tp.alone();
  return whole;
}

vocabulary_slice classes_of(const tensor_parallel& tp, std::int64_t vocabulary) {
  const auto rows = rows_each(tp, vocabulary), first = std::min<std::int64_t>(vocabulary, tp.rank * rows);
  return {first, std::min(rows, vocabulary - first), vocabulary};
}

}  // namespace troupe
