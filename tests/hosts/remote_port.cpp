#include "remote_port.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "../contract/routes.hpp"

namespace troupe::hosts {

namespace {

constexpr int child_socket = 3;

void write_line(int fd, std::string line) {
  line += '\n';
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t n = ::send(fd, line.data() + at, line.size() - at, MSG_NOSIGNAL);
    if (n <= 0) return;
    at += static_cast<std::size_t>(n);
  }
}

std::string read_line(std::FILE* in) {
  std::string line;
  for (int c = std::fgetc(in); c != EOF && c != '\n'; c = std::fgetc(in)) line += static_cast<char>(c);
  return line;
}

std::string to_hex(const port_address& bytes) {
  std::string text;
  for (auto b : bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", std::to_integer<unsigned>(b));
    text += two;
  }
  return text;
}

port_address from_hex(const std::string& text) {
  port_address bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoul(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

shard_id shard_of(int stage) { return {0, static_cast<std::uint16_t>(stage), 0}; }

/// The child's side.
class obedient_port {
public:
  obedient_port(const std::string& device, int stage, int handshake_ms) {
    port_options options = contract::options_for(contract::route::tcp);
    options.tcp_device = device;
    options.handshake_timeout = std::chrono::milliseconds(handshake_ms);
    listener_.on_arrival = [this](const message_id& id, tensor) {
      port_->consumed(id);
      listener_.note([&] { ++arrived_; });
    };
    auto made = make_ucx_port(loop_, options, shard_of(stage), listener_);
    if (!made) {
      std::fprintf(stderr, "%s\n", to_string(made.error()).c_str());
      ::_exit(3);
    }
    port_ = *std::move(made);
  }
  std::string address() const { return to_hex(port_->address()); }

  std::string obey(const std::string& line) {
    std::istringstream in(line);
    std::string word;
    in >> word;
    if (word == "wait") return wait(in);
    if (word == "failures") return std::to_string(listener_.failures().size());
    if (word == "wait_in_use_zero") return contract::all_returned(listener_.pool) ? "ok" : "late";
    int stage = 0;
    in >> stage;
    if (word == "epoch") port_->set_epoch(static_cast<std::uint32_t>(stage));
    if (word == "connect") connect(in, stage);
    if (word == "send") send(in, stage);
    if (word == "abandon") port_->abandon(shard_of(stage), {errc::peer_unreachable, "told so"});
    if (word == "disconnect") port_->disconnect(shard_of(stage));
    return "ok";
  }

private:
  void connect(std::istringstream& in, int stage) {
    std::string address;
    std::uint32_t credits = 0;
    in >> address >> credits;
    port_->connect(shard_of(stage), from_hex(address), credits);
  }
  void send(std::istringstream& in, int stage) {
    std::uint32_t count = 0, epoch = 0;
    std::size_t bytes = 0;
    in >> count >> bytes >> epoch;
    const tensor payload = contract::patterned(listener_.pool, bytes, 1);
    message_id id{.source = port_->self(), .destination = shard_of(stage), .epoch = epoch};
    for (id.micro_batch = 0; id.micro_batch < count; ++id.micro_batch) port_->send(id, payload);
  }
  std::string wait(std::istringstream& in) {
    std::string what;
    std::size_t n = 0;
    in >> what >> n;
    const bool came = what == "ready"     ? listener_.wait_ready(n)
                      : what == "arrived" ? listener_.wait([&] { return arrived_ >= n; })
                      : what == "failed"  ? listener_.wait_failed(n)
                                          : listener_.wait_closed(n);
    return came ? "ok" : "late";
  }

  event_loop loop_{"remote"};
  contract::recorder listener_;
  std::size_t arrived_ = 0;
  std::unique_ptr<tensor_port> port_;
};

}  // namespace

remote_port::remote_port(const std::string& host, const std::string& device, int stage, int handshake_ms) {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  char self[4096] = {};
  REQUIRE(::readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  const std::string number = std::to_string(stage), patience = std::to_string(handshake_ms);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setenv("TROUPE_REMOTE_DEVICE", device.c_str(), 1);
    ::setenv("TROUPE_REMOTE_STAGE", number.c_str(), 1);
    ::setenv("TROUPE_REMOTE_HANDSHAKE_MS", patience.c_str(), 1);
    if (ends[1] == child_socket) {
      ::fcntl(child_socket, F_SETFD, 0);
    } else {
      ::dup2(ends[1], child_socket);
    }
    // Not setns alone: UCX looks its devices up in /sys, which ip netns exec mounts anew.
    ::execlp("ip", "ip", "netns", "exec", host.c_str(), self, "a remote port", nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  socket_ = ends[0];
  in_ = ::fdopen(::dup(socket_), "r");
  address_ = read_line(in_);
  REQUIRE(!address_.empty());
}

remote_port::~remote_port() {
  ::close(socket_);
  std::fclose(in_);
  ::kill(pid_, SIGKILL);  // ip has become the child itself
  ::waitpid(pid_, nullptr, 0);
}

std::string remote_port::tell(const std::string& line) {
  write_line(socket_, line);
  return read_line(in_);
}

}  // namespace troupe::hosts

TEST_CASE("a remote port", "[.remote]") {
  using namespace troupe::hosts;
  if (!std::getenv("TROUPE_REMOTE_DEVICE")) return;  // run by hand
  obedient_port port(std::getenv("TROUPE_REMOTE_DEVICE"), std::atoi(std::getenv("TROUPE_REMOTE_STAGE")),
                     std::atoi(std::getenv("TROUPE_REMOTE_HANDSHAKE_MS")));
  write_line(child_socket, port.address());
  std::FILE* in = ::fdopen(child_socket, "r");
  for (std::string line = read_line(in); !line.empty(); line = read_line(in)) write_line(child_socket, port.obey(line));
  ::_exit(0);
}
