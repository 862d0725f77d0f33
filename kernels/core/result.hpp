#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace troupe {

/// What went wrong, one code for each reaction of the supervisor. Starts at 1: to CAF, code 0 means no error.
enum class errc : std::uint8_t {
  invalid_argument = 1,  ///< Wrong input, or our own bug. Never retried.
  peer_unreachable,      ///< A peer of the data plane failed: its shard is restarted.
  collective_aborted,    ///< A group of tensor shards broke: all its shards are restarted.
  device_lost,           ///< A sticky device error: the owning process is restarted.
  out_of_memory,         ///< Not retried as it was.
  timed_out,             ///< A deadline passed.
  cancelled,             ///< The operation was given up because its owner closed.
  stage_failed,          ///< The user's own stage refused or threw; its text is in `where`.
  system_failure,        ///< The operating system refused; `native` is errno.
};

std::string_view to_string(errc code) noexcept;

/// An error as a value: the code chooses the reaction, `where` tells a person what was being done and to whom.
struct error {
  errc code = errc::invalid_argument;
  std::string where;
  int native = 0;  ///< The library's own code (errno, ucs_status_t, cudaError_t), 0 where there is none.
};

/// One line for a person: "<where>: <code>".
std::string to_string(const error& e);

/// A `T` or an `error`. Reading the side that is not there is a bug (asserted).
template <class T>
class [[nodiscard]] result {
public:
  result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  result(troupe::error e) : state_(std::in_place_index<1>, std::move(e)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  T& value() & { return assert(has_value()), *std::get_if<0>(&state_); }
  const T& value() const& { return assert(has_value()), *std::get_if<0>(&state_); }
  T&& value() && { return assert(has_value()), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const troupe::error& error() const& { return assert(!has_value()), *std::get_if<1>(&state_); }
  troupe::error&& error() && { return assert(!has_value()), std::move(*std::get_if<1>(&state_)); }

private:
  std::variant<T, troupe::error> state_;
};

/// Success, or an `error`; carries no value.
class [[nodiscard]] status {
public:
  status() noexcept = default;
  status(troupe::error e) : error_(std::move(e)) {}

  bool ok() const noexcept { return !error_; }
  explicit operator bool() const noexcept { return ok(); }
  const troupe::error& error() const& { return assert(error_), *error_; }
  troupe::error&& error() && { return assert(error_), std::move(*error_); }

private:
  std::optional<troupe::error> error_;
};

/// `error{errc::invalid_argument, where}`.
inline error invalid(std::string where) { return {errc::invalid_argument, std::move(where)}; }

}  // namespace troupe

/// Returns the error of `expression` (a `status`) to the caller, or goes on.
#define TROUPE_CHECK(expression)                                                                    \
  do {                                                                                              \
    if (auto troupe_status = (expression); !troupe_status) return std::move(troupe_status).error(); \
  } while (false)

#define TROUPE_JOIN_(a, b) a##b
#define TROUPE_JOIN(a, b) TROUPE_JOIN_(a, b)
#define TROUPE_TRY_(hold, target, expression) \
  auto hold = (expression);                   \
  if (!hold) return std::move(hold).error();  \
  target = std::move(hold).value()

/// `TROUPE_TRY(auto y, f(x));` binds the value of `f(x)` (a `result`), or returns its error to the caller.
#define TROUPE_TRY(target, expression) TROUPE_TRY_(TROUPE_JOIN(troupe_hold_, __LINE__), target, expression)
