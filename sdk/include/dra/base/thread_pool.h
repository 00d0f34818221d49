#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace dra {

// Threads that run queued functions in order of arrival: one from the start, more as they are needed, `threads` at most;
// a node where nothing happens keeps few. The destructor runs what is queued, then joins. Functions must not throw. Any
// thread may Submit.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void Submit(std::function<void()> function);
  // Functions that wait for a thread.
  size_t Queued() const;
  // Threads started so far.
  size_t Threads() const;
  // Those of them that wait for a function.
  size_t Idle() const;

 private:
  void StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();

  const size_t limit_;
  mutable absl::Mutex mutex_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;  // threads that wait for a function
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dra
