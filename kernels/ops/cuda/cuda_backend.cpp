#include "kernels/ops/cuda/cuda_backend.hpp"

#include <fmt/format.h>

#include <array>
#include <new>

#include "kernels/ops/checks.hpp"
#include "kernels/ops/cuda/cuda_memory.hpp"
#include "kernels/ops/philox.hpp"

namespace troupe {

namespace {

status check_device(device where) {
  int count = 0;
  const auto code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0)
    return error{errc::invalid_argument,
                 fmt::format("{}: this machine has no usable CUDA device: {}; set parallel.device = \"cpu\"",
                             to_string(where), cudaGetErrorString(code == cudaSuccess ? cudaErrorNoDevice : code)),
                 static_cast<int>(code)};
  if (where.index < 0 || where.index >= count)
    return invalid(
        fmt::format("{}: this machine has {} CUDA device(s), counted from 0; use fewer stages, or set "
                    "parallel.device = \"cpu\"",
                    to_string(where), count));
  return {};
}

bool on_device(const tensor& t) {
  cudaPointerAttributes attributes{};
  return cudaPointerGetAttributes(&attributes, t.raw()) == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
}

}  // namespace

result<std::unique_ptr<backend>> make_cuda_backend(device where) { return cuda_backend::make(where); }

result<std::unique_ptr<backend>> cuda_backend::make(device where) {
  TROUPE_CHECK(check_device(where));
  TROUPE_TRY(auto stream, cuda_stream::make(where.index));
  auto memory = cuda_memory(where.index), pinned = pinned_memory(where.index);
  TROUPE_TRY(auto sgemm, cublas_sgemm::make(stream.get(), memory));
  TROUPE_TRY(void* place, pinned->allocate(sizeof(device_report)));
  report from_device(new (place) device_report, {pinned});
  return std::unique_ptr<backend>(new cuda_backend(where, std::move(memory), std::move(pinned), std::move(stream),
                                                   std::move(sgemm), std::move(from_device)));
}

// What is still enqueued uses memory that goes with this object.
cuda_backend::~cuda_backend() {
  cudaSetDevice(where_.index);
  cudaStreamSynchronize(stream_.get());
}

status cuda_backend::copy(const tensor& from, const tensor& to) {
  TROUPE_CHECK(checks::copy(from, to));
  TROUPE_CHECK(stream_.enter());
  TROUPE_CHECK(from_cuda(cudaMemcpyAsync(to.raw(), from.raw(), from.bytes(), cudaMemcpyDefault, stream_.get()),
                         fmt::format("copying {} bytes on {}", from.bytes(), to_string(where_))));
  for (const auto& side : {from, to})
    if (!on_device(side)) in_flight_.push_back(side);
  return {};
}

status cuda_backend::synchronise() {
  TROUPE_CHECK(stream_.enter());
  TROUPE_CHECK(from_cuda(cudaStreamSynchronize(stream_.get()), fmt::format("waiting for {}", to_string(where_))));
  in_flight_.clear();
  return take_index_fault();
}

status cuda_backend::take_index_fault() {
  static constexpr std::array<std::array<std::string_view, 2>, checked_operands> names{
      {{"embedding", "token"}, {"embedding_backward", "token"}, {"cross_entropy", "target"}}};
  for (std::size_t i = 0; i < checked_operands; ++i) {
    const auto fault = std::exchange(report_->faults[i], {});
    if (fault.found)
      return invalid(fmt::format("{}: {} {} at place {} is outside [0, {})", names[i][0], names[i][1], fault.value,
                                 fault.place, fault.limit));
  }
  return {};
}

status cuda_backend::upload(const float* numbers, const tensor& x) {
  TROUPE_CHECK(stream_.enter());
  TROUPE_CHECK(from_cuda(cudaMemcpyAsync(x.raw(), numbers, x.bytes(), cudaMemcpyHostToDevice, stream_.get()),
                         fmt::format("copying {} bytes to {}", x.bytes(), to_string(where_))));
  return synchronise();
}

// The host's generator, so that first values have the same bits on every device: libm's logarithm and cosine differ
// from the GPU's.
status cuda_backend::fill_normal(const tensor& x, std::uint64_t seed, std::string_view name, float deviation,
                                 const element_slice& part) {
  TROUPE_CHECK(checks::is("fill_normal", "x", x, dtype::f32));
  std::vector<float> numbers(static_cast<std::size_t>(x.elements()));
  philox::fill_normal(numbers, seed, name, deviation, part);
  return upload(numbers.data(), x);
}

status cuda_backend::fill_uniform(const tensor& x, std::uint64_t seed, std::string_view name, float bound,
                                  const element_slice& part) {
  TROUPE_CHECK(checks::is("fill_uniform", "x", x, dtype::f32));
  std::vector<float> numbers(static_cast<std::size_t>(x.elements()));
  philox::fill_uniform(numbers, seed, name, bound, part);
  return upload(numbers.data(), x);
}

}  // namespace troupe
