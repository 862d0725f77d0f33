#include "network.hpp"

#include <unistd.h>

#include <cstdlib>

#include "catch.hpp"

namespace troupe::hosts {

namespace {

bool succeeds(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

void must(const std::string& command) {
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);
}

}  // namespace

std::string network::obstacle() {
  if (::geteuid() != 0) return "only root may make network namespaces";
  if (!succeeds("command -v ip")) return "ip is not installed (apt install iproute2)";
  const std::string probe = "trp-probe" + std::to_string(::getpid());
  const bool made = succeeds("ip netns add " + probe) && succeeds("ip netns del " + probe);
  return made ? "" : "the kernel or container refuses network namespaces";
}

network::network() : tag_("trp" + std::to_string(::getpid())) {
  must("ip netns add " + router());
  for (int i : {0, 1}) {
    const std::string net = "10.99." + std::to_string(i), inside = "ip -n " + host(i) + " ",
                      outside = "ip -n " + router() + " ";
    const std::string far = "r" + std::to_string(i);
    must("ip netns add " + host(i));
    must("ip link add " + device(i) + " netns " + host(i) + " type veth peer name " + far + " netns " + router());
    must(inside + "addr add " + net + ".1/24 dev " + device(i));
    must(outside + "addr add " + net + ".2/24 dev " + far);
    must(inside + "link set lo up");
    must(inside + "link set " + device(i) + " up");
    must(outside + "link set " + far + " up");
    must(inside + "route add default via " + net + ".2");
  }
  heal();
}

network::~network() {
  for (const auto& name : {host(0), host(1), router()}) succeeds("ip netns del " + name);
}

std::string network::host(int i) const { return tag_ + "h" + std::to_string(i); }
std::string network::router() const { return tag_ + "r"; }
std::string network::device(int i) const { return "v" + std::to_string(i); }

void network::settle() {
  for (int i : {0, 1})
    must("ip netns exec " + host(i) + " sh -c 'while ss -Htn | awk \"\\$3 > 0\" | grep -q .; do :; done'");
}

bool network::keeps_alive(int i) const { return succeeds("ip netns exec " + host(i) + " ss -Htno | grep keepalive"); }

void network::blackhole() { must("ip netns exec " + router() + " sh -c 'echo 0 >/proc/sys/net/ipv4/ip_forward'"); }
void network::heal() { must("ip netns exec " + router() + " sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'"); }

}  // namespace troupe::hosts
