// All-reduce of host memory between two members, threads and processes. Large: as a share of what the memory allows,
// since every member's tensor must be read once and written once: 2·S·N bytes at the bandwidth B of a triad
// (a = b + s·c, 3 reads or writes an element) of as many threads, measured in turns with it. Small: the median latency.
// Beside them, where it was found, gloo over loopback.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "gloo_bench.hpp"
#include "kernels/collectives/host_group.hpp"
#include "kernels/core/clock.hpp"
#include "report.hpp"

using namespace troupe;

namespace {

constexpr std::int64_t large = 16 << 20, small = 4 << 10;  // elements: 64 MiB and 16 KiB of f32
constexpr int pairs = 15, calls = 4'000;

template <class T>
T value_of(result<T> r) {
  if (r) return std::move(*r);
  fmt::print(stderr, "{}\n", to_string(r.error()));
  std::_Exit(1);
}

void must(const status& s) {
  if (s) return;
  fmt::print(stderr, "{}\n", to_string(s.error()));
  std::_Exit(1);
}

template <class F>
double seconds(F&& f) {
  const auto start = monotonic_ns();
  f();
  return static_cast<double>(monotonic_ns() - start) * 1e-9;
}

/// Two threads' triad over arrays of 256 MiB.
class triad {
public:
  double bytes_per_second() {
    const double s = seconds([&] {
      std::thread other([&] { half(1); });
      half(0);
      other.join();
    });
    return 3.0 * sizeof(float) * static_cast<double>(elements) / s;
  }

private:
  static constexpr std::size_t elements = 64 << 20;
  void half(std::size_t which) {
    const auto first = which * (elements / 2);
    float* a = a_.data() + first;
    const float *b = b_.data() + first, *c = c_.data() + first;
    for (std::size_t i = 0; i < elements / 2; ++i) a[i] = b[i] + 3.0F * c[i];
  }
  std::vector<float> a_ = std::vector<float>(elements, 1), b_ = a_, c_ = a_;
};

struct timing {
  std::vector<double> share_of_bound, large_seconds, small_seconds;
};

/// What every member does; rank 0 takes the times, and in between the memory's bandwidth.
timing measure(communicator& self, triad* memory_bandwidth, bool with_large) {
  timing t;
  buffer_pool memory(self.memory());
  const auto make = [&](std::int64_t n) {
    auto x = value_of(tensor::make(memory, {dtype::f32, {n}}));
    for (auto& v : x.values<float>()) v = 0;
    return x;
  };
  if (with_large) {
    const auto x = make(large);
    must(self.all_reduce(x));
    for (int pair = 0; pair < pairs; ++pair) {
      const double bandwidth = memory_bandwidth ? memory_bandwidth->bytes_per_second() : 0;
      must(self.barrier());
      t.large_seconds.push_back(seconds([&] { must(self.all_reduce(x)); }));
      const double bound = 2.0 * self.size() * static_cast<double>(x.bytes());
      if (memory_bandwidth) t.share_of_bound.push_back(bound / bandwidth / t.large_seconds.back());
    }
  }
  const auto x = make(small);
  for (int call = 0; call < calls; ++call) t.small_seconds.push_back(seconds([&] { must(self.all_reduce(x)); }));
  return t;
}

host_group_settings as(std::uint32_t rank, std::uint32_t size) { return {rank, size, 1, std::chrono::minutes(1)}; }

timing between_threads(std::uint32_t size, triad* bandwidth) {
  thread_group group(size);
  std::vector<std::thread> others;
  for (std::uint32_t r = 1; r < size; ++r)
    others.emplace_back([&, r] { measure(*value_of(group.join(as(r, size))), nullptr, bandwidth != nullptr); });
  auto t = measure(*value_of(group.join(as(0, size))), bandwidth, bandwidth != nullptr);
  for (auto& o : others) o.join();
  return t;
}

timing between_processes(triad& bandwidth) {
  const auto segment = value_of(host_group_segment::make(2, std::size_t{256} << 20));
  const pid_t child = ::fork();
  if (child == 0) {
    measure(*value_of(join_host_group(segment.descriptor(), as(1, 2))), nullptr, true);
    ::_exit(0);
  }
  auto t = measure(*value_of(join_host_group(segment.descriptor(), as(0, 2))), &bandwidth, true);
  ::waitpid(child, nullptr, 0);
  return t;
}

void add(bench::report& out, const std::string& who, const timing& t) {
  out.add("64 MiB, " + who, bench::median(t.large_seconds) * 1e3, "ms");
  out.add("64 MiB, " + who + ", share of 2SN/B (median of paired)", bench::median(t.share_of_bound), "x",
          bench::report::demand::at_least, 0.7);
  out.add("16 KiB, " + who, bench::median(t.small_seconds) * 1e6, "us", bench::report::demand::at_most, 10);
}

}  // namespace

int main(int argc, char** argv) {
  bench::report out("all-reduce of f32 sums in host memory");
  triad bandwidth;
  bandwidth.bytes_per_second();
  std::vector<double> rates;
  for (int i = 0; i < 5; ++i) rates.push_back(bandwidth.bytes_per_second());
  out.add("memory, triad of two threads", bench::median(rates) * 1e-9, "GB/s");
  add(out, "2 processes", between_processes(bandwidth));
  add(out, "2 threads", between_threads(2, &bandwidth));
  out.add("16 KiB, 4 threads", bench::median(between_threads(4, nullptr).small_seconds) * 1e6, "us");
  for (const auto elements : {large, small}) {
    const auto took = gloo_all_reduce(static_cast<std::size_t>(elements), elements == large ? 9 : 400);
    if (!took.empty())
      out.add(fmt::format("{} KiB, gloo over loopback, 2 threads", elements / 256), bench::median(took) * 1e6, "us");
  }
  return out.finish(argc, argv);
}
