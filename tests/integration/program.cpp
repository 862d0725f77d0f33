#include "program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

extern char** environ;

namespace troupe::whole {

namespace {

namespace fs = std::filesystem;
using steady = std::chrono::steady_clock;

std::string new_mark() {
  static std::atomic<int> count{0};
  return fmt::format("WHOLE_PROGRAM_TEST={}-{}-{}", ::getpid(), ++count, steady::now().time_since_epoch().count());
}

std::vector<std::string> environment_with(const std::vector<std::string>& added, const std::string& mark) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!std::string_view(*entry).starts_with("TROUPE_")) all.emplace_back(*entry);
  all.insert(all.end(), added.begin(), added.end());
  all.push_back(mark);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> p;
  for (auto& s : strings) p.push_back(s.data());
  p.push_back(nullptr);
  return p;
}

int open_pidfd(int pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

int left_of(steady::time_point end) {
  return static_cast<int>(std::max<std::int64_t>(0, std::chrono::ceil<milliseconds>(end - steady::now()).count()));
}

bool readable_before(int descriptor, steady::time_point end) {
  pollfd p{descriptor, POLLIN, 0};
  while (::poll(&p, 1, left_of(end)) < 0 && errno == EINTR) {
  }
  return p.revents != 0;
}

std::string whole_file(int descriptor) {
  struct stat info {};
  ::fstat(descriptor, &info);
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  const auto n = ::pread(descriptor, text.data(), text.size(), 0);
  text.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  return text;
}

double seconds_since(steady::time_point begin) { return std::chrono::duration<double>(steady::now() - begin).count(); }

}  // namespace

program::program(std::vector<std::string> words, const std::vector<std::string>& environment)
    : mark_(new_mark()), out_(::memfd_create("stdout", MFD_CLOEXEC)), err_(::memfd_create("stderr", MFD_CLOEXEC)) {
  auto variables = environment_with(environment, mark_);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out_, 1);
  posix_spawn_file_actions_adddup2(&files, err_, 2);
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&how, 0);
  const int refused =
      ::posix_spawnp(&pid_, words[0].c_str(), &files, &how, pointers(words).data(), pointers(variables).data());
  posix_spawnattr_destroy(&how);
  posix_spawn_file_actions_destroy(&files);
  if (refused != 0) throw std::runtime_error(fmt::format("cannot start {}: {}", words[0], std::strerror(refused)));
  pidfd_ = open_pidfd(pid_);
}

program::~program() {
  if (!reaped_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (const auto& left : processes()) ::kill(left.pid, SIGKILL);
  for (int descriptor : {out_, err_, pidfd_}) ::close(descriptor);
}

void program::signal(int number) const { ::kill(pid_, number); }
std::string program::out() const { return whole_file(out_); }
std::string program::err() const { return whole_file(err_); }

program_end program::wait(milliseconds limit) {
  const auto begin = steady::now();
  if (!readable_before(pidfd_, begin + limit))
    throw std::runtime_error(
        fmt::format("the program did not end within {} ms; it wrote:\n{}{}", limit.count(), out(), err()));
  program_end end;
  end.seconds = seconds_since(begin);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  reaped_ = true;
  if (WIFSIGNALED(status))
    end.signal = WTERMSIG(status);
  else
    end.code = WEXITSTATUS(status);
  end.out = out();
  end.err = err();
  return end;
}

std::vector<process> program::processes() const {
  std::vector<process> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string variables{std::istreambuf_iterator<char>(file), {}};
    if (variables.find(mark_) == variables.npos) continue;
    std::error_code gone;
    found.push_back({std::stoi(name), fs::read_symlink(entry.path() / "fd" / "1", gone).string()});
  }
  return found;
}

double program::wait_until_gone(milliseconds limit) const {
  const auto begin = steady::now();
  for (auto left = processes(); !left.empty(); left = processes()) {
    const int pidfd = open_pidfd(left.front().pid);
    const bool ended = pidfd < 0 || readable_before(pidfd, begin + limit);
    ::close(pidfd);
    if (!ended)
      throw std::runtime_error(fmt::format("process {} still runs after {} ms", left.front().pid, limit.count()));
  }
  return seconds_since(begin);
}

program_end run(std::vector<std::string> words, const std::vector<std::string>& environment) {
  program p(std::move(words), environment);
  return p.wait();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace troupe::whole
