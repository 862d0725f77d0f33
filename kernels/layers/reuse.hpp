#pragma once

#include "kernels/core/tensor.hpp"

namespace troupe {

/// A tensor to write a result of `t`'s spec into: `t` itself where no one else holds its bytes, or a new one. A
/// boundary tensor may still be held by the stage that sent it, so it must not be overwritten unless this says so.
inline result<tensor> reuse_or_make(buffer_pool& memory, const tensor& t) {
  if (t.unique()) return t;
  return tensor::make(memory, t.spec());
}

}  // namespace troupe
