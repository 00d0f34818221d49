#pragma once

#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/clock.h"

namespace dra::claims {

// Runs functions at a given time, one after another, on one thread of its own: answers that are due, and operations
// that try again. Functions must be short and must not throw. Functions not yet due when this ends are dropped. Any
// thread.
class TimerQueue {
 public:
  using Id = std::pair<MonotonicTime, uint64_t>;

  TimerQueue();
  ~TimerQueue();
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  Id At(MonotonicTime when, std::function<void()> function);
  // The function will not start any more; it may be running.
  void Cancel(const Id& id);
  // Makes everything due now, in order: for shutdown.
  void Hurry();

 private:
  void Run();

  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::map<Id, std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  // When the thread looks again by itself; only what is due earlier has to wake it. Every call has a timer that is
  // cancelled a moment later, and the thread sleeps through all of them.
  MonotonicTime wakes_at_ ABSL_GUARDED_BY(mutex_) = MonotonicTime::min();
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace dra::claims
