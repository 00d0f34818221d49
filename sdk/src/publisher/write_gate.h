#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace dra::publisher {

// Lets the writes of the present turn through. Turns are numbered from 1; 0 is nobody's. Any thread; one writer at a
// time.
class WriteGate {
 public:
  // False: another turn, so do not write. True: write, then Leave.
  bool Enter(uint64_t turn) {
    absl::MutexLock lock(&mutex_);
    inside_ = turn != 0 && turn == turn_;
    return inside_;
  }
  void Leave() {
    absl::MutexLock lock(&mutex_);
    inside_ = false;
  }

  void Open(uint64_t turn) {
    absl::MutexLock lock(&mutex_);
    turn_ = turn;
  }
  // Waits for the write that is under way.
  void Close() {
    absl::MutexLock lock(&mutex_);
    turn_ = 0;
    const auto left = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !inside_; };
    mutex_.Await(absl::Condition(&left));
  }

 private:
  absl::Mutex mutex_;
  uint64_t turn_ ABSL_GUARDED_BY(mutex_) = 0;
  bool inside_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace dra::publisher
