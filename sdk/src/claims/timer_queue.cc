#include "claims/timer_queue.h"

namespace dra::claims {

TimerQueue::TimerQueue() : thread_([this] { Run(); }) {}

TimerQueue::~TimerQueue() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.Signal();
  }
  thread_.join();
}

TimerQueue::Id TimerQueue::At(MonotonicTime when, std::function<void()> function) {
  const absl::MutexLock lock(&mutex_);
  const Id id{when, next_++};
  queue_.emplace(id, std::move(function));
  if (hurry_ || when < wakes_at_) changed_.Signal();
  return id;
}

void TimerQueue::Cancel(const Id& id) {
  std::function<void()> dropped;  // what it owns ends outside the lock
  const absl::MutexLock lock(&mutex_);
  const auto found = queue_.find(id);
  if (found == queue_.end()) return;
  dropped = std::move(found->second);
  queue_.erase(found);
}

void TimerQueue::Hurry() {
  const absl::MutexLock lock(&mutex_);
  hurry_ = true;
  changed_.Signal();
}

void TimerQueue::Run() {
  for (;;) {
    std::function<void()> function;
    {
      const absl::MutexLock lock(&mutex_);
      for (;;) {
        if (stopping_) return;
        if (queue_.empty()) {
          wakes_at_ = MonotonicTime::max();
          changed_.Wait(&mutex_);
          continue;
        }
        const auto left = queue_.begin()->first.first - std::chrono::steady_clock::now();
        if (hurry_ || left <= left.zero()) break;
        wakes_at_ = queue_.begin()->first.first;
        changed_.WaitWithTimeout(&mutex_, absl::FromChrono(left));
      }
      wakes_at_ = MonotonicTime::min();
      function = std::move(queue_.begin()->second);
      queue_.erase(queue_.begin());
    }
    function();
  }
}

}  // namespace dra::claims
