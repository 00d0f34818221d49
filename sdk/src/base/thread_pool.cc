#include "dra/base/thread_pool.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace dra {

ThreadPool::ThreadPool(int threads) : limit_(static_cast<size_t>(std::max(threads, 1))) {
  // One always: what is submitted runs even if the system has no further thread to give.
  const absl::MutexLock lock(&mutex_);
  StartThread();
}

ThreadPool::~ThreadPool() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  // Nobody submits any more, so nobody adds a thread.
  std::vector<std::thread> threads;
  {
    const absl::MutexLock lock(&mutex_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void ThreadPool::Submit(std::function<void()> function) {
  const absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(function));
  if (queue_.size() <= idle_ || threads_.size() >= limit_) return;
  try {
    StartThread();
  } catch (const std::system_error&) {
    // Out of threads: those that run take it, later.
  }
}

void ThreadPool::StartThread() {
  threads_.emplace_back([this] { Run(); });
  ++idle_;  // from now on: until it runs for the first time it waits for work like the others
}

size_t ThreadPool::Threads() const {
  const absl::MutexLock lock(&mutex_);
  return threads_.size();
}

size_t ThreadPool::Queued() const {
  const absl::MutexLock lock(&mutex_);
  return queue_.size();
}

size_t ThreadPool::Idle() const {
  const absl::MutexLock lock(&mutex_);
  return idle_;
}

void ThreadPool::Run() {
  for (bool counted = true;; counted = false) {
    std::function<void()> function;
    {
      const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !queue_.empty();
      };
      const absl::MutexLock lock(&mutex_);
      if (!counted) ++idle_;
      mutex_.Await(absl::Condition(&ready));
      --idle_;
      if (queue_.empty()) return;
      function = std::move(queue_.front());
      queue_.pop_front();
    }
    function();
  }
}

}  // namespace dra
