#pragma once

#include <ostream>
#include <string>

#include "kernels/core/result.hpp"

namespace troupe {

/// Ends a command that prints one text: that text on `out` and exit code 0, or why there is none on `err` and 2.
inline int answer(const result<std::string>& text, std::ostream& out, std::ostream& err) {
  if (text)
    out << *text;
  else
    err << "troupe: " << text.error().where << '\n';
  return text ? 0 : 2;
}

}  // namespace troupe
