#pragma once

#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "dra/base/clock.h"

namespace dra::testing {

// A clock that stands still until a test moves it. Wall and monotonic time move together; SetNow
// makes the wall clock jump alone. Any thread. Deadlines of a dra::Call stay on the system clock:
// give calls under test none, or a far one.
class FakeClock final : public Clock {
 public:
  // Starts at 2026-01-01T00:00:00Z unless told otherwise.
  explicit FakeClock(absl::Time start = absl::FromUnixSeconds(1767225600));

  absl::Time Now() override;
  MonotonicTime Monotonic() override;
  // Returns once Advance has moved the clock past the end, or `stop` is requested.
  bool Sleep(absl::Duration duration, const std::stop_token& stop) override;

  // Moves both clocks forward and wakes the sleepers whose time has come.
  void Advance(absl::Duration duration);
  // A jump of the wall clock; no sleeper wakes.
  void SetNow(absl::Time now);

  // Waits, at most `patience` of real time, until at least `count` threads sleep. False if they do
  // not.
  bool WaitForSleepers(int count, absl::Duration patience = absl::Seconds(10));
  // Threads that sleep now.
  int Sleepers();
  // Moves on to the end of the shortest sleep, once somebody sleeps. False if nobody does within
  // `patience`.
  bool AdvanceToNextSleeper(absl::Duration patience = absl::Seconds(10));

 private:
  absl::Mutex mutex_;
  absl::CondVar changed_;
  absl::Duration elapsed_ ABSL_GUARDED_BY(mutex_);
  absl::Time wall_ ABSL_GUARDED_BY(mutex_);
  std::multimap<absl::Duration, int> sleepers_
      ABSL_GUARDED_BY(mutex_);  // end of sleep, as elapsed_
  const MonotonicTime origin_;
};

}  // namespace dra::testing
