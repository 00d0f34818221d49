#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <thread>

namespace fake {

// Calls `look` every `interval` on a thread of its own, until this is destroyed; `look` must not throw.
class Watcher {
 public:
  Watcher(std::chrono::milliseconds interval, std::function<void()> look);

 private:
  std::jthread thread_;  // last: it ends before anything it uses
};

// Waits, at most `time`, until `stop` is requested. True if it was.
bool WaitForStop(const std::stop_token& stop, std::chrono::milliseconds time);

}  // namespace fake
