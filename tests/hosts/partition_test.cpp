// Ports on two hosts, and a network between them that swallows packets. Needs root and ip; says so where it cannot run.
#include "catch.hpp"
#include "network.hpp"
#include "remote_port.hpp"

using namespace troupe::hosts;

namespace {

/// Two connected ports on two hosts.
struct two_hosts {
  explicit two_hosts(int handshake_ms = 10'000)
      : a(net.host(0), net.device(0), 0, handshake_ms), b(net.host(1), net.device(1), 1, handshake_ms) {}
  void connect(int times = 1) {
    CHECK(a.tell("connect 1 " + b.address() + " 64") == "ok");
    CHECK(b.tell("connect 0 " + a.address() + " 64") == "ok");
    REQUIRE(a.tell("wait ready " + std::to_string(times)) == "ok");
    REQUIRE(b.tell("wait ready " + std::to_string(times)) == "ok");
  }
  network net;
  remote_port a, b;
};

/// True, with a word on stderr that ctest looks for, where namespaces cannot be made.
bool skipped() {
  const std::string obstacle = network::obstacle();
  if (!obstacle.empty()) std::fprintf(stderr, "SKIPPED: %s\n", obstacle.c_str());
  return !obstacle.empty();
}

}  // namespace

TEST_CASE("tensors travel between two hosts, and the goodbye too", "[hosts]") {
  if (skipped()) return;
  two_hosts h;
  h.connect();
  CHECK(h.a.tell("send 1 50 1000000 0") == "ok");
  CHECK(h.b.tell("send 0 50 100 0") == "ok");
  CHECK(h.b.tell("wait arrived 50") == "ok");
  CHECK(h.a.tell("wait arrived 50") == "ok");
  CHECK(h.a.tell("disconnect 1") == "ok");
  CHECK(h.a.tell("wait closed 1") == "ok");
  CHECK(h.b.tell("wait closed 1") == "ok");
  CHECK(h.a.tell("failures") == "0");
  CHECK(h.b.tell("failures") == "0");
}

TEST_CASE("an idle connection over a cut network is noticed by the side that made it, and let go by the other",
          "[hosts]") {
  if (skipped()) return;
  two_hosts h;
  h.connect();
  h.net.settle();
  const bool by_a = h.net.keeps_alive(0);
  REQUIRE((by_a || h.net.keeps_alive(1)));
  h.net.blackhole();
  CHECK((by_a ? h.a : h.b).tell("wait failed 1") == "ok");
  CHECK((by_a ? h.b : h.a).tell(by_a ? "abandon 0" : "abandon 1") == "ok");
  CHECK((by_a ? h.b : h.a).tell("wait failed 1") == "ok");
}

TEST_CASE("what is in flight when the network is cut is let go on abandon, and both connect anew after it heals",
          "[hosts]") {
  if (skipped()) return;
  two_hosts h;
  h.connect();
  CHECK(h.a.tell("send 1 10 1000 0") == "ok");
  REQUIRE(h.b.tell("wait arrived 10") == "ok");
  h.net.blackhole();
  CHECK(h.a.tell("send 1 60 4000000 0") == "ok");
  CHECK(h.b.tell("send 0 60 1000 0") == "ok");
  CHECK(h.a.tell("abandon 1") == "ok");
  CHECK(h.b.tell("abandon 0") == "ok");
  for (remote_port* port : {&h.a, &h.b}) {
    CHECK(port->tell("wait failed 1") == "ok");
    CHECK(port->tell("wait_in_use_zero") == "ok");
    CHECK(port->tell("failures") == "1");
    CHECK(port->tell("epoch 1") == "ok");
  }
  h.net.heal();
  h.connect(2);
  CHECK(h.a.tell("send 1 5 1000000 1") == "ok");
  CHECK(h.b.tell("wait arrived 15") == "ok");
}

TEST_CASE("a handshake over a cut network ends at its deadline", "[hosts]") {
  if (skipped()) return;
  two_hosts h(1'000);
  h.net.blackhole();
  CHECK(h.a.tell("connect 1 " + h.b.address() + " 4") == "ok");
  CHECK(h.a.tell("send 1 3 100 0") == "ok");
  CHECK(h.a.tell("wait failed 1") == "ok");
  CHECK(h.a.tell("wait_in_use_zero") == "ok");
  h.net.heal();
  h.connect();
}
