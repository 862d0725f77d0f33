#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "runtime/config.hpp"

namespace troupe {

/// Tells where the value of a key came from: "run.toml:12", "--set", "TROUPE_TRAIN_STEPS", "default".
using origin_lookup = std::function<std::string(std::string_view key)>;

/// Checks what must hold between values that are each valid alone: divisibility, sums, sizes.
/// Errors: `invalid_argument`, one sentence that begins with the origin of the value to blame and says what would do.
status check_relations(const config& values, const origin_lookup& origin);

}  // namespace troupe
