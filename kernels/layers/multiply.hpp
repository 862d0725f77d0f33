#pragma once

#include "kernels/core/tensor.hpp"
#include "kernels/ops/backend.hpp"

namespace troupe {

/// A tensor read as the matrix [rows(), back()], or as its transpose.
struct matrix {
  matrix(const tensor& t) : values(t) {}
  matrix(const tensor& t, bool transpose) : values(t), transposed(transpose) {}
  std::int64_t rows() const { return transposed ? values.dims().back() : values.dims().rows(); }
  std::int64_t columns() const { return transposed ? values.dims().rows() : values.dims().back(); }

  const tensor& values;
  bool transposed = false;
};

inline matrix transposed(const tensor& t) { return {t, true}; }

/// c = a·b + beta·c, all f32; c is not read when beta is 0.
/// Errors: `invalid_argument` (the matrices do not fit each other), and the backend's.
status multiply(backend& ops, matrix a, matrix b, const tensor& c, float beta = 0);

}  // namespace troupe
