#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>

namespace troupe::hosts {

/// A port in a process of another network namespace, told what to do line by line. The child is this test binary, run
/// again with the hidden test case "a remote port".
class remote_port {
public:
  /// A tcp port of shard r0/s`stage`/t0 on `device` of the namespace `host`.
  remote_port(const std::string& host, const std::string& device, int stage, int handshake_ms = 10'000);
  ~remote_port();
  remote_port(const remote_port&) = delete;
  remote_port& operator=(const remote_port&) = delete;

  const std::string& address() const noexcept { return address_; }

  /// Sends a line and returns the answer: "ok", a number, or "late" for a wait that outlasted its patience.
  ///
  ///   connect STAGE ADDRESS CREDITS · send STAGE COUNT BYTES EPOCH · abandon STAGE · epoch N
  ///   wait ready|arrived|failed|closed N · failures · in_use · wait_in_use_zero · disconnect STAGE
  std::string tell(const std::string& line);

private:
  pid_t pid_ = -1;
  int socket_ = -1;
  std::FILE* in_ = nullptr;
  std::string address_;
};

}  // namespace troupe::hosts
