#include "transport/event_loop.hpp"

#include <pthread.h>

namespace troupe {

event_loop::event_loop(const std::string& thread_name)
    : work_(boost::asio::make_work_guard(context_)), thread_([this, thread_name] {
        pthread_setname_np(pthread_self(), thread_name.substr(0, 15).c_str());
        context_.run();
      }) {}

event_loop::~event_loop() {
  work_.reset();
  context_.stop();
  thread_.join();
}

}  // namespace troupe
