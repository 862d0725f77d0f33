#pragma once

#include "kernels/core/tensor.hpp"
#include "kernels/ops/cuda/reduce.cuh"

/// Tiles of one head's matrices [S, D] in shared memory, and their products. A block of 16 × 16 threads works on `Rows`
/// rows at once; thread (x, y) owns the elements of rows y, y + 16 … and columns x, x + 16 … of every product.
namespace troupe::attention_tiles {

inline constexpr unsigned edge = 16;
static_assert(edge * edge == threads_per_block);

/// One head of one sequence inside [B, S, ·] tensors.
struct head_layout {
  std::int64_t sequence, hidden, heads;  // S, H
  int width;                             // D = H / heads
  float scale;                           // 1/√D

  __device__ std::int64_t batch_of(unsigned head) const { return head / heads; }
  __device__ std::int64_t column_of(unsigned head) const { return head % heads * width; }
  __device__ std::int64_t qkv_stride() const { return 3 * hidden; }
  __device__ std::int64_t qkv_offset(unsigned head) const {
    return batch_of(head) * sequence * 3 * hidden + column_of(head);
  }
  __device__ std::int64_t out_offset(unsigned head) const {
    return batch_of(head) * sequence * hidden + column_of(head);
  }
};

/// `Width` ≥ D, the rest zeros. Row strides keep 16-byte accesses aligned and a warp's lanes on different banks.
template <int Width, int Rows>
struct tiling {
  static constexpr int width = Width, rows = Rows;
  static constexpr int own = Rows / edge;       // rows of a thread, and its columns of scores
  static constexpr int columns = Width / edge;  // columns of a thread in a tile of Width
  static constexpr int stride = Width + 4, score_stride = Rows + edge;
  static constexpr int floats = Rows * stride, score_floats = Rows * score_stride;
};

__device__ inline int x() { return static_cast<int>(threadIdx.x % edge); }
__device__ inline int y() { return static_cast<int>(threadIdx.x / edge); }

/// Rows [first, first + rows) of the matrix, with zeros past its last row and column.
template <class Tiling>
__device__ void load(float* tile, const float* matrix, std::int64_t matrix_stride, std::int64_t first,
                     const head_layout& head) {
  for (int i = static_cast<int>(threadIdx.x); i < Tiling::rows * Tiling::width; i += threads_per_block) {
    const int row = i / Tiling::width, column = i % Tiling::width;
    const bool there = first + row < head.sequence && column < head.width;
    tile[row * Tiling::stride + column] = there ? matrix[(first + row) * matrix_stride + column] : 0.0F;
  }
}

/// The thread's part of a tile's rows × `head.width` sums, to the matrix.
template <class Tiling>
__device__ void store(float* matrix, std::int64_t matrix_stride, std::int64_t first, const head_layout& head,
                      const float (&sums)[Tiling::own][Tiling::columns]) {
#pragma unroll
  for (int r = 0; r < Tiling::own; ++r) {
    const auto row = first + y() + r * static_cast<int>(edge);
#pragma unroll
    for (int c = 0; c < Tiling::columns; ++c) {
      const int column = x() + c * static_cast<int>(edge);
      if (row < head.sequence && column < head.width) matrix[row * matrix_stride + column] = sums[r][c];
    }
  }
}

/// sums = a·bᵀ, both tiles of Width.
template <class Tiling>
__device__ void multiply_transposed(float (&sums)[Tiling::own][Tiling::own], const float* a, const float* b) {
#pragma unroll
  for (auto& row : sums)
#pragma unroll
    for (auto& sum : row) sum = 0;
#pragma unroll 4
  for (int d = 0; d < Tiling::width; d += 4) {
    float4 rows[Tiling::own], columns[Tiling::own];
#pragma unroll
    for (int i = 0; i < Tiling::own; ++i) {
      rows[i] = *reinterpret_cast<const float4*>(a + (y() + i * static_cast<int>(edge)) * Tiling::stride + d);
      columns[i] = *reinterpret_cast<const float4*>(b + (x() + i * static_cast<int>(edge)) * Tiling::stride + d);
    }
#pragma unroll
    for (int r = 0; r < Tiling::own; ++r)
#pragma unroll
      for (int c = 0; c < Tiling::own; ++c) {
        float sum = sums[r][c];
        sum = fmaf(rows[r].x, columns[c].x, sum);
        sum = fmaf(rows[r].y, columns[c].y, sum);
        sum = fmaf(rows[r].z, columns[c].z, sum);
        sums[r][c] = fmaf(rows[r].w, columns[c].w, sum);
      }
  }
}

/// sums += p·b, p being rows × rows scores (their transpose, if `Transposed`), b a tile of Width.
template <class Tiling, bool Transposed>
__device__ void accumulate(float (&sums)[Tiling::own][Tiling::columns], const float* p, const float* b) {
#pragma unroll 4
  for (int j = 0; j < Tiling::rows; ++j) {
    float weights[Tiling::own];
#pragma unroll
    for (int r = 0; r < Tiling::own; ++r) {
      const int row = y() + r * static_cast<int>(edge);
      weights[r] = Transposed ? p[j * Tiling::score_stride + row] : p[row * Tiling::score_stride + j];
    }
#pragma unroll
    for (int c = 0; c < Tiling::columns; ++c) {
      const float value = b[j * Tiling::stride + x() + c * static_cast<int>(edge)];
#pragma unroll
      for (int r = 0; r < Tiling::own; ++r) sums[r][c] = fmaf(weights[r], value, sums[r][c]);
    }
  }
}

inline constexpr std::int64_t widest_head = 256;

/// use(tiling) for the narrowest one that holds a head of that width, at most `widest_head`.
template <class Use>
status with_tiling(std::int64_t width, Use use) {
  if (width <= 32) return use(tiling<32, 64>());
  if (width <= 64) return use(tiling<64, 64>());
  if (width <= 128) return use(tiling<128, 64>());
  return use(tiling<256, 32>());  // four tiles of 64 rows would not fit
}

/// `launch` for a kernel that needs more shared memory than the 48 KiB that any may have.
template <class... Parameters, class... Arguments>
status launch_with_tiles(const char* op, const cuda_stream& stream, void (*kernel)(Parameters...), dim3 blocks,
                         int shared_floats, Arguments... arguments) {
  const auto bytes = static_cast<std::size_t>(shared_floats) * sizeof(float);
  TROUPE_CHECK(stream.enter());
  TROUPE_CHECK(from_cuda(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), op));
  return launch(op, stream, kernel, blocks, threads_per_block, bytes, arguments...);
}

/// Errors: `invalid_argument` where the heads are wider than `widest_head`.
result<head_layout> layout_of(const char* op, const tensor& qkv, std::int64_t heads);

}  // namespace troupe::attention_tiles
