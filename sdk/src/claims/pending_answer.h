#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "claims/timer_queue.h"
#include "dra/base/call.h"
#include "dra/claims/claim_manager.h"

namespace dra::claims {

// What an operation comes to; an unprepare's has no devices.
using Outcome = absl::StatusOr<std::vector<PreparedDevice>>;

// One call of the kubelet that waits. It is answered exactly once: with the operation's outcome, or, when its time is
// up or its caller has gone, alone, while the operation goes on. Any thread.
class PendingAnswer {
 public:
  // what: for texts, "prepare claim ns1/c1". timers outlives the answer. Answers at the call's deadline or after
  // `limit`, whichever comes first.
  static std::shared_ptr<PendingAnswer> Create(std::string what, const Call& call,
                                               absl::Duration limit, TimerQueue* timers,
                                               std::function<void(Outcome)> done);
  ~PendingAnswer();

  // The first one counts.
  void Give(Outcome outcome);
  // Still to be answered: somebody waits.
  bool open() const;
  // What to say when time is up: the reason why the operation cannot go on now; OK takes it back.
  void SetBlocked(absl::Status blocked);
  // Ends when the answer does.
  const Call& call() const { return call_; }

 private:
  PendingAnswer(std::string what, TimerQueue* timers, std::function<void(Outcome)> done);
  void TimeIsUp();

  const std::string what_;
  TimerQueue* const timers_;
  Call call_;
  mutable absl::Mutex mutex_;
  std::function<void(Outcome)> done_ ABSL_GUARDED_BY(mutex_);  // empty once answered
  absl::Status blocked_ ABSL_GUARDED_BY(mutex_);
  TimerQueue::Id timer_;
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};

}  // namespace dra::claims
