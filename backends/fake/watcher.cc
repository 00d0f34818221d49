#include "watcher.h"

#include <condition_variable>
#include <mutex>
#include <utility>

namespace fake {

bool WaitForStop(const std::stop_token& stop, std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait_for(lock, stop, time, [] { return false; });
  return stop.stop_requested();
}

Watcher::Watcher(std::chrono::milliseconds interval, std::function<void()> look)
    : thread_([interval, look = std::move(look)](const std::stop_token& stop) {
        while (!WaitForStop(stop, interval)) look();
      }) {}

}  // namespace fake
