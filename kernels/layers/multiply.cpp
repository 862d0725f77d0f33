#include "kernels/layers/multiply.hpp"

#include <fmt/format.h>

namespace troupe {

status multiply(backend& ops, matrix a, matrix b, const tensor& c, float beta) {
  if (a.columns() != b.rows() || c.dims().rows() != a.rows() || c.dims().back() != b.columns())
    return invalid(fmt::format("multiply: [{}, {}] times [{}, {}] into [{}, {}]", a.rows(), a.columns(), b.rows(),
                               b.columns(), c.dims().rows(), c.dims().back()));
  return ops.gemm({.transpose_a = a.transposed,
                   .transpose_b = b.transposed,
                   .m = a.rows(),
                   .n = b.columns(),
                   .k = a.columns(),
                   .a = a.values.data<float>(),
                   .lda = a.values.dims().back(),
                   .b = b.values.data<float>(),
                   .ldb = b.values.dims().back(),
                   .beta = beta,
                   .c = c.data<float>(),
                   .ldc = c.dims().back()});
}

}  // namespace troupe
