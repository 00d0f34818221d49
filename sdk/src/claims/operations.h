#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "claims/pending_answer.h"
#include "claims/timer_queue.h"
#include "dra/base/clock.h"
#include "dra/base/thread_pool.h"
#include "dra/resource/claim.h"

namespace dra::claims {

enum class OperationKind { kPrepare, kUnprepare };

// One operation on one claim, detached from the calls that wait for it.
struct Operation {
  OperationKind kind = OperationKind::kPrepare;
  loader::ClaimIdentity claim;
  std::stop_source stop;

  // Of the thread that runs an attempt; attempts never overlap.
  std::optional<resource::ResourceClaim> fresh;  // read just now; empty: read it (again) first
  std::string digest;  // of the allocation to prepare, as first read; does not change
  int failures = 0;    // attempts that failed for a passing reason
  std::optional<MonotonicTime> uncreated_since;  // an unprepare that waits for the backend's create
  std::function<bool()> still_blocked;           // cheap look whether another attempt is worth it
  absl::Status blocked;
  absl::Duration retry_after;
  std::vector<std::string>
      wake_on;  // claim uids and exclusion keys whose release is worth another attempt
  std::vector<std::string> touched;  // keys that the attempt had: free when it is over

  // Guarded by Operations' mutex.
  std::vector<std::shared_ptr<PendingAnswer>> waiters;
  bool parked = false;
  TimerQueue::Id timer;
};

// What an attempt led to: the end, or a reason to try again later. While it waits an operation has no lock and no
// thread.
struct Step {
  static Step Done(Outcome outcome);
  // Tries again after `retry_after`, earlier when an operation ends that had one of `wake_on` (claim uids and exclusion
  // keys). When set, still_blocked is asked first, and only when it says no an attempt is made.
  static Step Wait(absl::Status why, absl::Duration retry_after,
                   std::vector<std::string> wake_on = {},
                   std::function<bool()> still_blocked = nullptr);

  std::optional<Outcome> outcome;
  absl::Status blocked;
  absl::Duration retry_after;
  std::vector<std::string> wake_on;
  std::function<bool()> still_blocked;
};

// One operation at a time for each claim: design 3.4.
// - A prepare joins a running or queued prepare of the same allocation; another allocation cancels it and comes next.
// - An unprepare cancels the prepares that came before it, and comes next; a prepare after it waits for it (PRP-15).
// - A prepare makes no further attempt once nobody waits; an unprepare goes on.
// Any thread; no lock of this class is held while an attempt runs or an answer is given.
class Operations {
 public:
  using Attempt = std::function<Step(Operation&)>;
  // All outlive this. `answered` runs after the answers of an operation, on its thread: for what nobody waits for.
  Operations(ThreadPool* prepares, ThreadPool* unprepares, TimerQueue* timers, Attempt attempt,
             std::function<void()> answered);

  // Called on a thread of `prepares`: the first attempt may run before this returns.
  void SubmitPrepare(const loader::ClaimIdentity& claim, resource::ResourceClaim fresh,
                     const std::string& digest, std::shared_ptr<PendingAnswer> waiter);
  void SubmitUnprepare(const loader::ClaimIdentity& claim, std::shared_ptr<PendingAnswer> waiter);

  // Something was released in the middle of an operation: all that wait for a release look again. The end of an
  // operation wakes those that wait for what it had, and nobody else.
  void Released();

  // Requests stop for every operation and wakes those that wait.
  void CancelAll();
  // True when there is no operation any more.
  bool WaitIdle(absl::Duration timeout);
  size_t Running() const;

 private:
  struct Slot {
    std::shared_ptr<Operation> running;
    std::deque<std::shared_ptr<Operation>> queued;
  };

  // Enters the operation; the one to start now, if any, and those to stop.
  std::shared_ptr<Operation> Enter(std::shared_ptr<Operation> operation,
                                   std::shared_ptr<PendingAnswer> waiter,
                                   std::vector<std::shared_ptr<Operation>>* to_stop);
  void Stop(const std::vector<std::shared_ptr<Operation>>& operations);
  void Schedule(const std::shared_ptr<Operation>& operation);
  void Run(const std::shared_ptr<Operation>& operation);
  void Park(const std::shared_ptr<Operation>& operation);
  void Wake(const std::shared_ptr<Operation>& operation);
  void Finish(const std::shared_ptr<Operation>& operation, const Outcome& outcome);
  void ReleasedBy(const Operation& operation);
  void Forget(const std::shared_ptr<Operation>& operation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool SomebodyWaits(const Operation& operation) const;

  ThreadPool* const prepares_;
  ThreadPool* const unprepares_;
  TimerQueue* const timers_;
  const Attempt attempt_;
  const std::function<void()> answered_;
  mutable absl::Mutex mutex_;
  std::unordered_map<std::string, Slot> slots_ ABSL_GUARDED_BY(mutex_);
  int answering_ ABSL_GUARDED_BY(mutex_) = 0;
  // By what they wait for: a claim uid or an exclusion key.
  std::unordered_map<std::string, std::set<std::shared_ptr<Operation>>> waiting_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace dra::claims
