#include "peer_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace troupe::contract {

namespace {

constexpr int child_socket = 3;

void write_all(int fd, const void* bytes, std::size_t count) {
  const auto* from = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t n = ::send(fd, from, count, MSG_NOSIGNAL);
    if (n <= 0) return;
    from += n;
    count -= static_cast<std::size_t>(n);
  }
}

bool read_all(int fd, void* bytes, std::size_t count) {
  auto* to = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t n = ::read(fd, to, count);
    if (n <= 0) return false;
    to += n;
    count -= static_cast<std::size_t>(n);
  }
  return true;
}

void write_address(int fd, const port_address& address) {
  const std::uint64_t size = address.size();
  write_all(fd, &size, sizeof size);
  write_all(fd, address.data(), address.size());
}

bool read_address(int fd, port_address& address) {
  std::uint64_t size = 0;
  if (!read_all(fd, &size, sizeof size)) return false;
  address.resize(size);
  return read_all(fd, address.data(), size);
}

}  // namespace

peer_process::peer_process(route over, const std::string& role) {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const char* const arguments[] = {"/proc/self/exe", "a peer process", nullptr};
  const std::string route_text = over == route::tcp ? "tcp" : "shared memory";
  pid_ = ::fork();
  if (pid_ == 0) {  // only calls that are safe after a fork of a process with threads, plus setenv on our own copy
    ::setenv("TROUPE_PEER_ROUTE", route_text.c_str(), 1);
    ::setenv("TROUPE_PEER_ROLE", role.c_str(), 1);
    if (ends[1] == child_socket) {
      ::fcntl(child_socket, F_SETFD, 0);
    } else {
      ::dup2(ends[1], child_socket);
    }
    ::execv(arguments[0], const_cast<char* const*>(arguments));
    ::_exit(127);
  }
  ::close(ends[1]);
  socket_ = ends[0];
  REQUIRE(read_address(socket_, address_));
}

peer_process::~peer_process() {
  ::close(socket_);  // a child that lives ends itself on this
  if (pid_ > 0) kill();
  reap();
}

void peer_process::tell(const port_address& where) { write_address(socket_, where); }

void peer_process::kill() const { ::kill(pid_, SIGKILL); }

void peer_process::reap() {
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void peer_process::stop() const {
  ::kill(pid_, SIGSTOP);
  int status = 0;
  REQUIRE(::waitpid(pid_, &status, WUNTRACED) == pid_);
  REQUIRE(WIFSTOPPED(status));
}

}  // namespace troupe::contract

using namespace troupe;
using namespace troupe::contract;

TEST_CASE("a peer process", "[.peer]") {
  if (!std::getenv("TROUPE_PEER_ROLE")) return;  // run by hand
  const std::string role = std::getenv("TROUPE_PEER_ROLE");
  const route over = std::string(std::getenv("TROUPE_PEER_ROUTE")) == "tcp" ? route::tcp : route::shared_memory;
  event_loop loop("peer");
  recorder listener;
  auto made = make_ucx_port(loop, options_for(over), shard_b, listener);
  if (!made) ::_exit(3);
  auto port = *std::move(made);
  if (role == "echo") {
    listener.on_arrival = [&](const message_id& id, tensor t) {
      port->consumed(id);
      port->send(reversed(id), std::move(t));
    };
  }
  write_address(child_socket, port->address());
  port_address other;
  if (!read_address(child_socket, other)) ::_exit(0);
  if (role != "mute") port->connect(shard_a, other, 64);
  if (role == "depart") ::_exit(0);
  if (role == "source" && listener.wait_ready()) {
    const tensor payload = patterned(listener.pool, 1 << 20, 5);
    for (std::uint32_t m = 0; m < 64; ++m) port->send(reversed(to_b(m)), payload);
  }
  char end;
  (void)!::read(child_socket, &end, 1);
  ::_exit(0);
}
