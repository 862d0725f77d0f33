#pragma once

#include <string>

namespace troupe::hosts {

/// Two hosts made of network namespaces, joined through a third that forwards between them and can stop to:
///
///   host 0  10.99.0.1 ── 10.99.0.2  router  10.99.1.2 ── 10.99.1.1  host 1
class network {
public:
  /// Empty where such a network can be made, else what is missing.
  static std::string obstacle();

  network();
  ~network();
  network(const network&) = delete;
  network& operator=(const network&) = delete;

  /// The namespace of host 0 or 1; its device is `device(i)`.
  std::string host(int i) const;
  std::string device(int i) const;

  /// Waits until every byte that either host has sent is acknowledged: until then the kernel retransmits for minutes
  /// and sends no keepalive.
  void settle();
  /// True when the kernel probes host `i`'s idle connections. UCX asks for that only where it connects, not where it
  /// accepts.
  bool keeps_alive(int i) const;
  void blackhole();  ///< packets between the hosts vanish without a word
  void heal();

private:
  std::string router() const;
  const std::string tag_;  ///< of this process, so that tests may run side by side
};

}  // namespace troupe::hosts
