#include "members.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

namespace troupe::collectives {

board::board()
    : shared_(static_cast<memory*>(
          ::mmap(nullptr, sizeof(memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
  REQUIRE(shared_ != MAP_FAILED);
}
board::~board() { ::munmap(shared_, sizeof(memory)); }

void board::write(std::uint32_t rank, const std::string& text) const {
  std::strncpy(shared_->text[rank], text.c_str(), text_bytes - 1);
}

void board::wait(std::size_t i, std::int64_t value) const {
  while (flag(i).load() < value) std::this_thread::sleep_for(std::chrono::microseconds(200));
}

crew::crew(std::uint32_t size, std::size_t arena_bytes)
    : size_(size), segment_(std::move(host_group_segment::make(size, arena_bytes)).value()), threads_(size) {}

result<std::unique_ptr<communicator>> crew::join(host_group_settings settings) const {
  settings.size = size_;
#ifdef TROUPE_MEMBERS_ARE_PROCESSES
  return join_host_group(segment_.descriptor(), settings);
#else
  return threads_.join(settings);
#endif
}

std::unique_ptr<communicator> crew::member(std::uint32_t rank, std::uint32_t epoch,
                                           std::chrono::milliseconds deadline) const {
  auto joined = join({rank, size_, epoch, deadline});
  if (!joined) {
    std::fprintf(stderr, "rank %u, epoch %u: %s\n", rank, epoch, to_string(joined.error()).c_str());
    std::abort();
  }
  return *std::move(joined);
}

void crew::run(const std::function<std::string(std::uint32_t)>& act) const {
  board words;
#ifdef TROUPE_MEMBERS_ARE_PROCESSES
  std::vector<pid_t> children;
  for (std::uint32_t r = 0; r < size_; ++r) children.push_back(start_process([&, r] { words.write(r, act(r)); }));
  for (std::uint32_t r = 0; r < size_; ++r) {
    INFO("rank " << r << " of " << size_);
    CHECK(ended_well(children[r]));
  }
#else
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < size_; ++r) threads.emplace_back([&, r] { words.write(r, act(r)); });
  for (auto& t : threads) t.join();
#endif
  for (std::uint32_t r = 0; r < size_; ++r) {
    INFO("rank " << r << " of " << size_);
    CHECK(words.read(r) == "");
  }
}

pid_t start_process(const std::function<void()>& act) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    act();
    ::_exit(0);
  }
  return child;
}

bool ended_well(pid_t child) {
  int ended = 0;
  return ::waitpid(child, &ended, 0) == child && WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
}

std::string expect_error(const status& done, errc code, std::initializer_list<std::string_view> parts) {
  if (done) return "succeeded";
  const auto text = to_string(done.error());
  if (done.error().code != code) return "has another code: " + text;
  for (auto part : parts)
    if (text.find(part) == std::string::npos) return "says nothing of '" + std::string(part) + "': " + text;
  return "";
}

std::string expect_ok(const status& done, std::string_view doing) {
  return done ? "" : std::string(doing) + ": " + to_string(done.error());
}

void dawdle(std::mt19937& random) {
  const auto kind = random() % 4;
  if (kind == 0) std::this_thread::yield();
  volatile unsigned spin = kind == 1 ? random() % 20'000 : random() % 200;
  while (spin > 0) spin = spin - 1;
}

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace troupe::collectives
