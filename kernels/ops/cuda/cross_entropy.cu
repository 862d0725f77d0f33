#include "kernels/ops/checks.hpp"
#include "kernels/ops/cuda/cuda_backend.hpp"
#include "kernels/ops/cuda/reduce.cuh"

namespace troupe {

namespace {

// One block a row: the logits become their gradient; losses[row] is the unscaled loss.
__global__ void cross_entropy_rows(float* logits, const std::int32_t* targets, float scale, double* losses,
                                   std::int64_t n) {
  const std::int64_t row = blockIdx.x;
  logits += row * n;
  const std::int64_t target = targets[row] >= 0 && targets[row] < n ? targets[row] : 0;
  const double target_logit = logits[target];  // before the barrier behind which it is overwritten

  float top = -INFINITY;
  for (std::int64_t j = threadIdx.x; j < n; j += threads_per_block) top = fmaxf(top, logits[j]);
  top = reduce_block(top, largest_of());
  float total = 0;
  for (std::int64_t j = threadIdx.x; j < n; j += threads_per_block) {
    const float power = expf(logits[j] - top);
    logits[j] = power;
    total += power;
  }
  total = reduce_block(total, sum_of());
  if (threadIdx.x == 0) losses[row] = static_cast<double>(top) + log(static_cast<double>(total)) - target_logit;
  const float to_gradient = scale / total;
  for (std::int64_t j = threadIdx.x; j < n; j += threads_per_block)
    logits[j] = logits[j] * to_gradient - (j == target ? scale : 0.0F);
}

}  // namespace

status cuda_backend::cross_entropy(const tensor& logits, const tensor& targets, float scale, const tensor& loss) {
  constexpr auto op = "cross_entropy";
  TROUPE_CHECK(checks::cross_entropy(logits, targets, loss));
  const auto rows = logits.dims().rows(), n = logits.dims().back();
  TROUPE_CHECK(expect_below(checked_indices::cross_entropy_target, targets, n));
  TROUPE_TRY(float* scratch, scratch_.floats(2 * (rows + most_parts)));  // of f64
  auto* losses = reinterpret_cast<double*>(scratch);
  TROUPE_CHECK(launch(op, stream_, cross_entropy_rows, blocks_for(rows, 1), threads_per_block, 0, logits.data<float>(),
                      targets.data<std::int32_t>(), scale, losses, n));
  return sum_all(
      op, stream_, rows, losses + rows, [losses] __device__(std::int64_t i) { return losses[i]; },
      [loss = loss.data<float>(), scale] __device__(double sum) { *loss = static_cast<float>(scale * sum); });
}

}  // namespace troupe
