#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <type_traits>

#include "transport/port_options.hpp"

#include "kernels/core/result.hpp"

namespace troupe {

/// Owns one `ucp_context_h`: UCX's library state for one route.
class ucp_context {
public:
  /// Settings come from `options` and win over the environment. Errors: `invalid_argument` (no such network device),
  /// `system_failure`.
  static result<ucp_context> make(const port_options& options);
  ucp_context_h get() const noexcept { return handle_.get(); }  ///< Borrowed, while this lives.

private:
  struct cleanup {
    void operator()(ucp_context_h c) const noexcept { ucp_cleanup(c); }
  };
  using handle = std::unique_ptr<std::remove_pointer_t<ucp_context_h>, cleanup>;
  explicit ucp_context(handle owned) noexcept : handle_(std::move(owned)) {}
  handle handle_;
};

}  // namespace troupe
