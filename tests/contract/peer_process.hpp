#pragma once

#include <sys/types.h>

#include <string>

#include "routes.hpp"

namespace troupe::contract {

/// A port in a process of its own, which this process may kill or stop. The child is this test binary, run again with
/// the hidden test case "a peer process"; it ends when this object goes.
class peer_process {
public:
  /// What the child does with its port:
  ///   echo     sends every tensor back
  ///   hold     takes every tensor and never consumes one
  ///   source   sends 64 tensors of 1 MiB once it is connected
  ///   mute     never connects
  ///   depart   connects, then ends at once without a goodbye
  peer_process(route over, const std::string& role);
  ~peer_process();
  peer_process(const peer_process&) = delete;
  peer_process& operator=(const peer_process&) = delete;

  const port_address& address() const noexcept { return address_; }
  /// Lets the child connect to `where`.
  void tell(const port_address& where);

  void kill() const;  ///< SIGKILL; a zombie until `reap`
  void reap();        ///< waits for its end
  void stop() const;  ///< SIGSTOP; returns when it stands still

private:
  pid_t pid_ = -1;
  int socket_ = -1;
  port_address address_;
};

}  // namespace troupe::contract
