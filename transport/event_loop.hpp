#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <string>
#include <thread>

namespace troupe {

/// A Boost.Asio loop on a thread of its own. Destroying it stops the loop and joins the thread; whatever still has
/// handlers on it must be destroyed first.
class event_loop {
public:
  explicit event_loop(const std::string& thread_name);
  ~event_loop();
  event_loop(const event_loop&) = delete;
  event_loop& operator=(const event_loop&) = delete;

  boost::asio::io_context& context() noexcept { return context_; }
  bool in_loop() const noexcept { return std::this_thread::get_id() == thread_.get_id(); }

private:
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace troupe
