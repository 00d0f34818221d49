#pragma once

#include <algorithm>
#include <optional>
#include <stop_token>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "dra/base/clock.h"

namespace dra::publisher {

// A wait on a Clock that another thread can end. One waiter, any number of wakers.
class Waker {
 public:
  // Returns when `duration` has passed on `clock`, Wake was called (also before this wait), or `stop` is requested.
  void Wait(Clock& clock, absl::Duration duration, const std::stop_token& stop) {
    std::stop_source source;
    {
      absl::MutexLock lock(&mutex_);
      if (woken_) {
        woken_ = false;
        return;
      }
      current_ = source;
    }
    {
      std::stop_callback forward(stop, [&source] { source.request_stop(); });
      // A clock may add the duration to its time, so "for ever" is a day.
      clock.Sleep(std::min(duration, absl::Hours(24)), source.get_token());
    }
    absl::MutexLock lock(&mutex_);
    current_.reset();
    woken_ = false;
  }

  void Wake() {
    std::optional<std::stop_source> source;
    {
      absl::MutexLock lock(&mutex_);
      woken_ = true;
      source = current_;
    }
    if (source.has_value()) source->request_stop();
  }

 private:
  absl::Mutex mutex_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<std::stop_source> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dra::publisher
