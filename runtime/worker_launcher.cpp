#include "runtime/worker_launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <future>

extern char** environ;

namespace troupe {

namespace {

error system_error(std::string where) { return {errc::system_failure, where + ": " + std::strerror(errno), errno}; }

int open_pidfd(int pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }
int send_by_pidfd(int pidfd, int signal) {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
}

process_end reap(int pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? process_end{WTERMSIG(status), 0} : process_end{0, WEXITSTATUS(status)};
}

std::vector<std::string> child_environment(const std::string& run_key, std::int64_t threads) {
  std::vector<std::string> result;
  bool has_threads = false;
  for (char** e = environ; *e != nullptr; ++e) {
    result.emplace_back(*e);
    has_threads = has_threads || result.back().starts_with("OMP_NUM_THREADS=");
  }
  result.push_back("TROUPE_RUN_KEY=" + run_key);
  if (!has_threads) result.push_back(fmt::format("OMP_NUM_THREADS={}", threads));
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> p;
  for (auto& s : strings) p.push_back(s.data());
  p.push_back(nullptr);
  return p;
}

}  // namespace

// --- progress page --------------------------------------------------------------------------------------------------

result<progress_page> progress_page::map(int descriptor, std::size_t count) {
  void* memory = ::mmap(nullptr, count * sizeof(progress_cell), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return system_error("mapping the progress page");
  return progress_page(descriptor, static_cast<progress_cell*>(memory), count);
}

result<progress_page> progress_page::make(std::size_t cells) {
  const int descriptor = ::memfd_create("troupe-progress", MFD_CLOEXEC);
  if (descriptor < 0) return system_error("creating the progress page");
  if (::ftruncate(descriptor, static_cast<off_t>(cells * sizeof(progress_cell))) != 0) {
    ::close(descriptor);
    return system_error("sizing the progress page");
  }
  return map(descriptor, cells);  // zero bytes are cells that are starting
}

result<progress_page> progress_page::adopt(int descriptor) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return system_error("the progress page from the head");
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return map(descriptor, static_cast<std::size_t>(info.st_size) / sizeof(progress_cell));
}

progress_page::progress_page(progress_page&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      cells_(std::exchange(other.cells_, nullptr)),
      count_(other.count_) {}

progress_page::~progress_page() {
  if (cells_ != nullptr) ::munmap(static_cast<void*>(cells_), count_ * sizeof(progress_cell));
  if (descriptor_ >= 0) ::close(descriptor_);
}

// --- launcher -------------------------------------------------------------------------------------------------------

worker_launcher::~worker_launcher() {
  std::map<std::uint32_t, std::shared_ptr<child>> left;
  {
    std::lock_guard lock(mutex_);
    left.swap(children_);
  }
  std::promise<void> done;
  boost::asio::post(loop_.context(), [&] {
    for (auto& [index, c] : left) {
      send_by_pidfd(c->pidfd.native_handle(), SIGKILL);
      c->pidfd.cancel();
      reap(c->pid);
    }
    done.set_value();
  });
  done.get_future().wait();
}

// On the loop's thread: the kernel ties a worker's life to the thread that started it.
result<int> worker_launcher::start(std::uint32_t index, std::function<void(process_end)> ended) {
  std::promise<result<int>> started;
  boost::asio::post(loop_.context(), [&] { started.set_value(spawn(index, std::move(ended))); });
  return started.get_future().get();
}

result<int> worker_launcher::spawn(std::uint32_t index, std::function<void(process_end)> ended) {
  const int group = settings_.group_descriptors.empty() ? -1 : settings_.group_descriptors[index];
  // Above both, so that giving the child one cannot cover the other.
  const int cells_in_child = std::max(settings_.cells_descriptor, group) + 1, group_in_child = cells_in_child + 1;
  std::vector<std::string> arguments{"/proc/self/exe", "worker",
                                     "--head-address", settings_.head_address,
                                     "--head-port",    std::to_string(settings_.head_port),
                                     "--index",        std::to_string(index),
                                     "--cells",        std::to_string(cells_in_child)};
  arguments[0] = "troupe";
  if (group >= 0) arguments.insert(arguments.end(), {"--group", std::to_string(group_in_child)});
  auto environment = child_environment(settings_.run_key, settings_.threads_per_worker);
  const auto log = fmt::format("{}/worker-{}.log", settings_.log_folder, index);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  posix_spawn_file_actions_adddup2(&files, settings_.cells_descriptor, cells_in_child);
  if (group >= 0) posix_spawn_file_actions_adddup2(&files, group, group_in_child);
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  // A process group of its own: Ctrl-C is the head's to hear. Signals as they are by default.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&how, 0);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setsigdefault(&how, &all);
  int pid = 0;
  const int refused =
      ::posix_spawn(&pid, "/proc/self/exe", &files, &how, pointers(arguments).data(), pointers(environment).data());
  posix_spawnattr_destroy(&how);
  posix_spawn_file_actions_destroy(&files);
  if (refused != 0) {
    errno = refused;
    return system_error(fmt::format("starting worker {}", index));
  }
  const int pidfd = open_pidfd(pid);
  if (pidfd < 0) {
    auto why = system_error(fmt::format("watching worker {} (the kernel needs pidfd_open, Linux 5.3)", index));
    ::kill(pid, SIGKILL);
    reap(pid);
    return why;
  }
  auto c = std::make_shared<child>(
      child{pid, boost::asio::posix::stream_descriptor(loop_.context(), pidfd), std::move(ended)});
  {
    std::lock_guard lock(mutex_);
    children_[index] = c;
  }
  watch(index, std::move(c));
  return pid;
}

void worker_launcher::watch(std::uint32_t index, std::shared_ptr<child> c) {
  auto& pidfd = c->pidfd;
  pidfd.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   [this, index, c](const boost::system::error_code& e) {
                     if (e) return;
                     {
                       std::lock_guard lock(mutex_);
                       children_.erase(index);
                     }
                     c->ended(reap(c->pid));
                   });
}

void worker_launcher::signal(std::uint32_t index, int signal) {
  std::lock_guard lock(mutex_);
  if (auto found = children_.find(index); found != children_.end())
    send_by_pidfd(found->second->pidfd.native_handle(), signal);
}

void worker_launcher::signal_all(int signal) {
  std::lock_guard lock(mutex_);
  for (auto& [index, c] : children_) send_by_pidfd(c->pidfd.native_handle(), signal);
}

}  // namespace troupe
