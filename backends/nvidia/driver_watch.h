#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace nvidia {

// Looks, on a thread of its own, whether the driver's library came, went or was replaced: a driver container may start
// after this process, and a driver may be upgraded underneath it. It opens nothing.
class DriverWatch {
 public:
  // look: a text that changes when the library does; what it throws counts as no change. changed: called once for each
  // change, the state at the start not counted.
  DriverWatch(std::chrono::seconds interval, std::function<std::string()> look,
              std::function<void()> changed)
      : look_(std::move(look)),
        changed_(std::move(changed)),
        interval_(interval),
        thread_([this](std::stop_token stop) { Run(stop); }) {}

 private:
  void Run(std::stop_token stop) {
    std::string seen = Look("");
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, stop, interval_, [&] { return stop.stop_requested(); })) {
      lock.unlock();
      const std::string now = Look(seen);
      if (now != seen) changed_();
      seen = now;
      lock.lock();
    }
  }
  std::string Look(const std::string& otherwise) const noexcept {
    try {
      return look_();
    } catch (const std::exception&) {
      return otherwise;
    }
  }

  const std::function<std::string()> look_;
  const std::function<void()> changed_;
  const std::chrono::seconds interval_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: stopped and joined first
};

}  // namespace nvidia
