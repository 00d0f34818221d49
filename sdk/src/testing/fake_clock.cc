#include "dra/testing/fake_clock.h"

#include <algorithm>
#include <iterator>

#include "absl/time/clock.h"

namespace dra::testing {

FakeClock::FakeClock(absl::Time start)
    : elapsed_(absl::ZeroDuration()), wall_(start), origin_(std::chrono::steady_clock::now()) {}

absl::Time FakeClock::Now() {
  absl::MutexLock lock(&mutex_);
  return wall_;
}

MonotonicTime FakeClock::Monotonic() {
  absl::MutexLock lock(&mutex_);
  return origin_ +
         std::chrono::duration_cast<MonotonicTime::duration>(absl::ToChronoNanoseconds(elapsed_));
}

bool FakeClock::Sleep(absl::Duration duration, const std::stop_token& stop) {
  // Made before the lock and destroyed after it: a stop that is already requested runs the callback
  // right here.
  std::stop_callback wake(stop, [this] {
    absl::MutexLock lock(&mutex_);
    changed_.SignalAll();
  });
  absl::MutexLock lock(&mutex_);
  const absl::Duration end = elapsed_ + std::max(duration, absl::ZeroDuration());
  const auto entry = sleepers_.emplace(end, 0);
  changed_.SignalAll();
  while (elapsed_ < end && !stop.stop_requested()) changed_.Wait(&mutex_);
  sleepers_.erase(entry);
  changed_.SignalAll();
  return elapsed_ >= end && !stop.stop_requested();
}

void FakeClock::Advance(absl::Duration duration) {
  absl::MutexLock lock(&mutex_);
  elapsed_ += duration;
  wall_ += duration;
  changed_.SignalAll();
}

void FakeClock::SetNow(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  wall_ = now;
}

int FakeClock::Sleepers() {
  absl::MutexLock lock(&mutex_);
  // A sleeper whose time has come but whose thread has not run yet no longer sleeps.
  return static_cast<int>(std::distance(sleepers_.upper_bound(elapsed_), sleepers_.end()));
}

bool FakeClock::WaitForSleepers(int count, absl::Duration patience) {
  const absl::Time until = absl::Now() + patience;
  absl::MutexLock lock(&mutex_);
  while (std::distance(sleepers_.upper_bound(elapsed_), sleepers_.end()) < count) {
    if (changed_.WaitWithDeadline(&mutex_, until)) {
      return std::distance(sleepers_.upper_bound(elapsed_), sleepers_.end()) >= count;
    }
  }
  return true;
}

bool FakeClock::AdvanceToNextSleeper(absl::Duration patience) {
  const absl::Time until = absl::Now() + patience;
  absl::MutexLock lock(&mutex_);
  while (sleepers_.upper_bound(elapsed_) == sleepers_.end()) {
    if (changed_.WaitWithDeadline(&mutex_, until)) return false;
  }
  const absl::Duration step = sleepers_.upper_bound(elapsed_)->first - elapsed_;
  elapsed_ += step;
  wall_ += step;
  changed_.SignalAll();
  return true;
}

}  // namespace dra::testing
