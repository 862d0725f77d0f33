// The tensor channel beside UCX's own benchmark: latency and bandwidth of a port between two processes as a ratio to
// ucx_perftest, run in turns, the median of the pairs' ratios; then what a sleeping receiver costs, and the checksum.
// Options: --json FILE, --pairs N (default 9), --only TEXT (what names contain, for example "tcp, 16").
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdlib>
#include <future>
#include <sstream>
#include <thread>

#include "report.hpp"
#include "transport/ucx_port.hpp"

using namespace troupe;
using steady = std::chrono::steady_clock;

namespace {

constexpr shard_id client_id{0, 0, 0}, server_id{0, 1, 0};
constexpr std::uint32_t window = 32;  // ucx_perftest's own for ucp_am_bw
constexpr auto always = std::chrono::hours(1);

enum class pattern : char { ping_pong = 'p', stream = 's' };

struct setup {
  port_route route;
  pattern shape;
  std::size_t bytes;
  std::uint32_t messages;
  std::chrono::microseconds spin = always;
  bool checksum = false;
};

[[noreturn]] void die(const std::string& what) {
  fmt::print(stderr, "bench_channel: {}\n", what);
  std::exit(1);
}

void pin(event_loop& loop, int cpu) {
  boost::asio::post(loop.context(), [cpu] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(cpu), &one);
    sched_setaffinity(0, sizeof one, &one);
  });
}

double seconds_of_cpu(event_loop& loop) {
  std::promise<double> used;
  boost::asio::post(loop.context(), [&] {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    used.set_value(static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec));
  });
  return used.get_future().get();
}

/// Receives every message into one tensor, as ucx_perftest does.
struct end_of_channel : port_listener {
  end_of_channel(const setup& s, shard_id self, int cpu) : what(s) {
    port_options options;
    options.route = s.route;
    options.spin = s.spin;
    options.payload_checksum = s.checksum;
    auto made = make_ucx_port(loop, options, self, *this);
    if (!made) die(to_string(made.error()));
    port = *std::move(made);
    pin(loop, cpu);
    const tensor_spec spec{dtype::u8, {static_cast<std::int64_t>(s.bytes)}};
    incoming = *tensor::make(pool, spec);
    outgoing = *tensor::make(pool, spec);
    std::fill_n(outgoing.data<std::uint8_t>(), s.bytes, std::uint8_t{1});
    std::fill_n(incoming.data<std::uint8_t>(), s.bytes, std::uint8_t{1});
  }
  void peer_ready(shard_id) override { ready.set_value(); }
  result<tensor> destination(const message_id&, const tensor_spec& spec) override {
    if (what.shape == pattern::ping_pong) return std::move(incoming);  // comes back in `arrived`
    // The last word of a stream is smaller than its messages.
    return spec == incoming.spec() ? incoming : *tensor::make(pool, spec);
  }
  void arrived(const message_id& id, tensor payload) final {
    if (what.shape == pattern::ping_pong) incoming = std::move(payload);
    port->consumed(id);
    answer(id);
  }
  virtual void answer(const message_id& id) = 0;
  void peer_failed(shard_id, const error& why) override { die(to_string(why)); }
  void peer_closed(shard_id) override { closed.set_value(); }
  void say_goodbye(shard_id peer) {
    port->disconnect(peer);
    closed.get_future().wait();
  }

  setup what;
  buffer_pool pool{host_memory()};
  event_loop loop{"bench"};
  tensor incoming, outgoing;
  std::promise<void> ready, closed;
  std::unique_ptr<tensor_port> port;
};

/// Answers every message of a ping-pong, and the last one of a stream.
struct server final : end_of_channel {
  explicit server(const setup& s) : end_of_channel(s, server_id, 0) {}
  ~server() { port.reset(); }
  void answer(const message_id& id) override {
    if (what.shape == pattern::stream && id.micro_batch + 1 < what.messages) return;
    port->send({.source = server_id, .destination = client_id, .micro_batch = id.micro_batch}, outgoing);
  }
};

struct client final : end_of_channel {
  explicit client(const setup& s) : end_of_channel(s, client_id, 1) {}
  ~client() { port.reset(); }

  void go() {
    began = last = steady::now();
    if (what.shape == pattern::ping_pong) return send_next();
    for (std::uint32_t m = 0; m < what.messages; ++m) send_next();
  }
  void send_next() { port->send({.source = client_id, .destination = server_id, .micro_batch = next++}, outgoing); }
  void answer(const message_id&) override {
    if (what.shape == pattern::stream) return done.set_value();
    if (next % batch == 0) {
      const auto now = steady::now();
      one_way_us.push_back(std::chrono::duration<double, std::micro>(now - last).count() / (2.0 * batch));
      last = now;
    }
    if (next < what.messages) return send_next();
    done.set_value();
  }

  const std::uint32_t batch = what.spin == always ? 10 : 1;  // a look at the clock takes long beside a polled message
  std::uint32_t next = 0;
  steady::time_point began, last;
  std::vector<double> one_way_us;
  std::promise<void> done;
};

void write_address(int fd, const port_address& a) {
  const std::uint32_t size = static_cast<std::uint32_t>(a.size());
  if (::write(fd, &size, sizeof size) != sizeof size || ::write(fd, a.data(), size) != static_cast<ssize_t>(size))
    die("lost the other process");
}

port_address read_address(int fd) {
  std::uint32_t size = 0;
  if (::read(fd, &size, sizeof size) != sizeof size) die("lost the other process");
  port_address a(size);
  if (::recv(fd, a.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size)) die("lost the other process");
  return a;
}

void serve(int fd, const setup& s) {
  server end(s);
  write_address(fd, end.port->address());
  end.port->connect(client_id, read_address(fd), window);
  end.ready.get_future().wait();
  const double before = seconds_of_cpu(end.loop);
  char word;
  if (::read(fd, &word, 1) == 1) {  // the idle time is over
    const double used = seconds_of_cpu(end.loop) - before;
    if (::write(fd, &used, sizeof used) != sizeof used) die("lost the other process");
  }
  end.closed.get_future().wait();
}

/// A server in a process of its own, by running this program again.
class server_process {
public:
  explicit server_process(const setup& s) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) die("socketpair");
    const std::string fields =
        fmt::format("{} {} {} {} {} {} {}", ends[1], static_cast<int>(s.route), static_cast<char>(s.shape), s.bytes,
                    s.messages, s.spin.count(), s.checksum ? 1 : 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::fcntl(ends[1], F_SETFD, 0);
      const char* const arguments[] = {"/proc/self/exe", "--serve", fields.c_str(), nullptr};
      ::execv(arguments[0], const_cast<char* const*>(arguments));
      ::_exit(127);
    }
    ::close(ends[1]);
    fd = ends[0];
  }
  ~server_process() {
    ::close(fd);
    ::waitpid(pid_, nullptr, 0);
  }
  int fd = -1;

private:
  pid_t pid_ = -1;
};

struct outcome {
  double one_way_us = 0;  // the median
  double mib_per_s = 0;
  double idle_cpu_share = 0;  // of one core, both loop threads
};

outcome run(const setup& s, double idle_seconds = 0) {
  server_process other(s);
  client end(s);
  const port_address where = read_address(other.fd);
  write_address(other.fd, end.port->address());
  end.port->connect(server_id, where, window);
  end.ready.get_future().wait();
  outcome found;
  if (idle_seconds > 0) {
    const double before = seconds_of_cpu(end.loop);
    std::this_thread::sleep_for(std::chrono::duration<double>(idle_seconds));
    double theirs = 0;
    if (::write(other.fd, "x", 1) != 1 || ::read(other.fd, &theirs, sizeof theirs) != sizeof theirs)
      die("lost the other process");
    found.idle_cpu_share = (seconds_of_cpu(end.loop) - before + theirs) / idle_seconds;
  }
  boost::asio::post(end.loop.context(), [&] { end.go(); });
  end.done.get_future().wait();
  const double seconds = std::chrono::duration<double>(steady::now() - end.began).count();
  found.mib_per_s = static_cast<double>(s.bytes) * s.messages / seconds / (1 << 20);
  found.one_way_us = bench::median(end.one_way_us);
  end.say_goodbye(server_id);
  return found;
}

/// ucx_perftest's figures for the same: one-way microseconds (median) or MiB/s.
/// `extra` bytes are added to each message.
outcome run_perftest(const setup& s, std::size_t extra = 0) {
  static int port = 14'000 + static_cast<int>(::getpid() % 20'000);
  ++port;
  const std::string environment = fmt::format(
      "UCX_LOG_LEVEL=error UCX_WARN_UNUSED_ENV_VARS=n UCX_MM_ERROR_HANDLING=y UCX_POSIX_ERROR_HANDLING=y "
      "UCX_NET_DEVICES=lo UCX_TLS={} ",
      s.route == port_route::tcp ? "tcp" : "posix");
  const std::string command = fmt::format(
      "{0} ucx_perftest -p {1} -c 0 -e >/dev/null 2>&1 & "
      "for i in $(seq 100); do {0} ucx_perftest 127.0.0.1 -p {1} -c 1 -e -t {2} -s {3} -n {4} -w {5} -f 2>/dev/null && "
      "break; "
      "sleep 0.05; done; wait",
      environment, port, s.shape == pattern::ping_pong ? "ucp_am_lat" : "ucp_am_bw", s.bytes + extra, s.messages,
      s.messages / 10 + 1);
  FILE* out = ::popen(command.c_str(), "r");
  std::string last;
  char line[512];
  while (out && std::fgets(line, sizeof line, out)) last = line;
  if (out) ::pclose(out);
  // iterations, then microseconds: median, mean, mean of all; then MiB/s: mean, mean of all
  std::istringstream fields(last);
  std::string iterations, typical, mean, mean_of_all, bandwidth, bandwidth_of_all;
  fields >> iterations >> typical >> mean >> mean_of_all >> bandwidth >> bandwidth_of_all;
  if (!fields) die("ucx_perftest gave no figures (apt install ucx-utils): " + last);
  return {std::strtod(typical.c_str(), nullptr), std::strtod(bandwidth_of_all.c_str(), nullptr), 0};
}

/// The share of all CPU time that others than this program and its children used since the last call.
double foreign_load() {
  static double busy_before = 0, idle_before = 0, own_before = 0;
  std::FILE* f = std::fopen("/proc/stat", "r");
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
  const bool ok = f && std::fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle, &wait, &irq,
                                   &soft, &steal) == 8;
  if (f) std::fclose(f);
  if (!ok) return 0;
  double own = 0;
  for (int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage u;
    getrusage(who, &u);
    for (const timeval& t : {u.ru_utime, u.ru_stime})
      own += static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  }
  own *= static_cast<double>(sysconf(_SC_CLK_TCK));
  const double busy = user + nice + system + irq + soft + steal;
  const double all = busy - busy_before + (idle + wait - idle_before);
  const double foreign = busy - busy_before - (own - own_before);
  busy_before = busy, idle_before = idle + wait, own_before = own;
  return all > 0 ? std::max(0.0, foreign / all) : 0;
}

constexpr double too_much_load = 0.1;

std::string only;
bool wanted(const std::string& name) { return name.find(only) != std::string::npos; }

/// Runs both in turns and compares; pairs that others disturbed are run again, up to as many times more.
void compare(bench::report& report, const std::string& name, const setup& s, int pairs) {
  if (!wanted(name)) return;
  std::vector<double> ratios, ours, theirs, disturbed;
  const bool latency = s.shape == pattern::ping_pong;
  for (int tries = 0; static_cast<int>(ratios.size()) < pairs && tries < 2 * pairs; ++tries) {
    foreign_load();
    const outcome a = tries % 2 ? run_perftest(s) : run(s), b = tries % 2 ? run(s) : run_perftest(s);
    const outcome& our = tries % 2 ? b : a;
    const outcome& their = tries % 2 ? a : b;
    const double o = latency ? our.one_way_us : our.mib_per_s, t = latency ? their.one_way_us : their.mib_per_s;
    if (foreign_load() > too_much_load) {
      disturbed.push_back(o / t);
      if (tries < 2 * pairs - (pairs - static_cast<int>(ratios.size()))) continue;
    }
    ratios.push_back(o / t);
    ours.push_back(o);
    theirs.push_back(t);
  }
  const std::string unit = latency ? "us" : "MiB/s";
  report.add(name + ", port", bench::median(ours), unit);
  report.add(name + ", ucx_perftest", bench::median(theirs), unit);
  if (!disturbed.empty())
    report.add(name + ", pairs disturbed by other load", static_cast<double>(disturbed.size()), "pairs");
  using demand = bench::report::demand;
  if (latency) return report.add(name + ", ratio", bench::median(ratios), "", demand::at_most, 1.5);
  report.add(name + ", ratio", bench::median(ratios), "", demand::at_least, 0.9);
}

setup parse(const std::string& text, int& fd) {
  std::istringstream in(text);
  int route = 0, checksum = 0;
  char shape = 0;
  setup s{};
  std::int64_t spin = 0;
  in >> fd >> route >> shape >> s.bytes >> s.messages >> spin >> checksum;
  s.route = static_cast<port_route>(route);
  s.shape = static_cast<pattern>(shape);
  s.spin = std::chrono::microseconds(spin);
  s.checksum = checksum != 0;
  return s;
}

void measure(bench::report& report, port_route route, int pairs) {
  const std::string name = route == port_route::tcp ? "tcp" : "shared memory";
  constexpr std::size_t mib = 1 << 20;
  const std::uint32_t trips = route == port_route::tcp ? 20'000 : 100'000;
  compare(report, name + ", 8 B one way, polling", {route, pattern::ping_pong, 8, trips}, pairs);
  const std::string with_header = name + ", 8 B one way, polling, ucx_perftest with our header's 76 B more";
  if (wanted(with_header)) {
    std::vector<double> each;
    for (int i = 0; i < pairs; ++i) each.push_back(run_perftest({route, pattern::ping_pong, 8, trips}, 76).one_way_us);
    report.add(with_header, bench::median(each), "us");
  }
  const setup large{route, pattern::stream, mib, 3'000}, larger{route, pattern::stream, 16 * mib, 200};
  compare(report, name + ", 1 MiB", large, pairs);
  compare(report, name + ", 16 MiB", larger, pairs);

  setup summed = larger;
  summed.checksum = true;
  const std::string with_checksum = name + ", 16 MiB with checksum";
  if (wanted(with_checksum)) report.add(with_checksum, run(summed).mib_per_s, "MiB/s");
  for (int spin_us : {0, 20}) {
    if (!wanted(name + ", 8 B one way, sleeping")) continue;
    const outcome asleep = run({route, pattern::ping_pong, 8, 5'000, std::chrono::microseconds(spin_us)}, 2);
    report.add(fmt::format("{}, 8 B one way, sleeping after {} us", name, spin_us), asleep.one_way_us, "us");
    report.add(fmt::format("{}, CPU of both ends while idle, sleeping after {} us", name, spin_us),
               100 * asleep.idle_cpu_share, "% of a core", bench::report::demand::at_most, 0.5);
  }
}

}  // namespace

int main(int argc, char** argv) {
  set_ucx_environment();
  int pairs = 9;
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--pairs") pairs = std::atoi(argv[i + 1]);
    if (option == "--only") only = argv[i + 1];
    if (option == "--serve") {
      int fd = -1;
      const setup s = parse(argv[i + 1], fd);
      serve(fd, s);
      return 0;
    }
  }
  bench::report report(fmt::format("tensor channel beside ucx_perftest, medians of {} pairs", pairs));
  for (auto route : {port_route::shared_memory, port_route::tcp}) measure(report, route, pairs);
  return report.finish(argc, argv);
}
