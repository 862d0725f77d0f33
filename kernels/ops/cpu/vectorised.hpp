#pragma once

#include <cstdint>

/// TROUPE_VECTORISED before a function compiles it three times, for x86-64-v4 (AVX-512), v3 (AVX2) and any x86-64; the
/// loader picks one for the CPU at hand. Only what it inlines is compiled so: hence TROUPE_INLINE on what it calls.
/// Under a sanitizer there is one version: the picking functions (ifuncs) would run before its runtime has started.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define TROUPE_VECTORISED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TROUPE_VECTORISED
#endif
#define TROUPE_INLINE [[gnu::always_inline]] inline

namespace troupe {

/// How many partial sums run side by side in a reduction. A fixed number, so that the order of a sum, and with it its
/// bits, depends neither on the CPU's vector width nor on an address.
inline constexpr std::int64_t lanes = 32;

/// Folds `start` and term(0) … term(n − 1): term i joins lane i mod `lanes`, then the lanes join pairwise.
template <class Value, class Term, class Join>
TROUPE_INLINE Value reduce(std::int64_t n, Value start, Term term, Join join) {
  Value lane[lanes];
  for (auto& v : lane) v = start;
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
#pragma omp simd
    for (std::int64_t l = 0; l < lanes; ++l) lane[l] = join(lane[l], term(i + l));
  }
  for (std::int64_t l = 0; i + l < n; ++l) lane[l] = join(lane[l], term(i + l));
  for (std::int64_t half = lanes / 2; half > 0; half /= 2)
    for (std::int64_t l = 0; l < half; ++l) lane[l] = join(lane[l], lane[l + half]);
  return lane[0];
}

template <class Value, class Term>
TROUPE_INLINE Value sum(std::int64_t n, Term term) {
  return reduce<Value>(
      n, Value{0}, term, [](Value a, Value b) __attribute__((always_inline)) { return a + b; });
}

}  // namespace troupe
