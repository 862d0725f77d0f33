// Apart from the header's checksum: a payload is long, so here the library picks AVX2 or AVX-512 when it runs (twice as
// fast), there the compiler knows the length.
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include "transport/wire_header.hpp"

namespace troupe {

std::uint64_t payload_checksum(const void* bytes, std::size_t count) noexcept { return XXH3_64bits(bytes, count); }

}  // namespace troupe
