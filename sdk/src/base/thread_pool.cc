#include "dra/base/thread_pool.h"

#include <utility>

namespace dra {

ThreadPool::ThreadPool(int threads) {
  threads_.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

ThreadPool::~ThreadPool() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Submit(std::function<void()> function) {
  const absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(function));
}

size_t ThreadPool::Queued() const {
  const absl::MutexLock lock(&mutex_);
  return queue_.size();
}

void ThreadPool::Run() {
  for (;;) {
    std::function<void()> function;
    {
      const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !queue_.empty();
      };
      const absl::MutexLock lock(&mutex_, absl::Condition(&ready));
      if (queue_.empty()) return;
      function = std::move(queue_.front());
      queue_.pop_front();
    }
    function();
  }
}

}  // namespace dra
