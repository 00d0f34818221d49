#include "claims/operations.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dra::claims {
namespace {

absl::Status Overtaken(const loader::ClaimIdentity& claim) {
  return absl::AbortedError(absl::StrCat("prepare claim ", claim.namespace_name, "/", claim.name,
                                         ": cancelled by a later unprepare or another allocation"));
}

}  // namespace

Step Step::Done(Outcome outcome) {
  Step step;
  step.outcome = std::move(outcome);
  return step;
}

Step Step::Wait(absl::Status why, absl::Duration retry_after, std::vector<std::string> wake_on,
                std::function<bool()> still_blocked) {
  Step step;
  step.blocked = std::move(why);
  step.retry_after = retry_after;
  step.wake_on = std::move(wake_on);
  step.still_blocked = std::move(still_blocked);
  return step;
}

Operations::Operations(ThreadPool* prepares, ThreadPool* unprepares, TimerQueue* timers,
                       Attempt attempt, std::function<void()> answered)
    : prepares_(prepares),
      unprepares_(unprepares),
      timers_(timers),
      attempt_(std::move(attempt)),
      answered_(std::move(answered)) {}

std::shared_ptr<Operation> Operations::Enter(std::shared_ptr<Operation> operation,
                                             std::shared_ptr<PendingAnswer> waiter,
                                             std::vector<std::shared_ptr<Operation>>* to_stop) {
  const absl::MutexLock lock(&mutex_);
  Slot& slot = slots_[operation->claim.uid];
  const std::shared_ptr<Operation> last = slot.queued.empty() ? slot.running : slot.queued.back();
  if (last != nullptr && last->kind == operation->kind && last->digest == operation->digest &&
      !last->stop.stop_requested()) {
    if (last->parked) waiter->SetBlocked(last->blocked);
    last->waiters.push_back(std::move(waiter));
    return nullptr;
  }
  operation->waiters.push_back(std::move(waiter));
  if (slot.running == nullptr) {
    slot.running = operation;
    return operation;
  }
  // Whatever prepare came before is of no use any more; an unprepare is always finished.
  if (slot.running->kind == OperationKind::kPrepare) to_stop->push_back(slot.running);
  for (const auto& queued : slot.queued) {
    if (queued->kind == OperationKind::kPrepare) to_stop->push_back(queued);
  }
  operation->fresh.reset();  // what was read before the wait may be out of date after it
  slot.queued.push_back(std::move(operation));
  return nullptr;
}

void Operations::Stop(const std::vector<std::shared_ptr<Operation>>& operations) {
  for (const auto& operation : operations) {
    operation->stop.request_stop();  // outside the lock: runs the callbacks of whoever listens
    Wake(operation);
  }
}

void Operations::SubmitPrepare(const loader::ClaimIdentity& claim, resource::ResourceClaim fresh,
                               const std::string& digest, std::shared_ptr<PendingAnswer> waiter) {
  auto operation = std::make_shared<Operation>();
  operation->kind = OperationKind::kPrepare;
  operation->claim = claim;
  operation->fresh = std::move(fresh);
  operation->digest = digest;
  std::vector<std::shared_ptr<Operation>> to_stop;
  const auto start = Enter(std::move(operation), std::move(waiter), &to_stop);
  Stop(to_stop);
  if (start != nullptr) Run(start);
}

void Operations::SubmitUnprepare(const loader::ClaimIdentity& claim,
                                 std::shared_ptr<PendingAnswer> waiter) {
  auto operation = std::make_shared<Operation>();
  operation->kind = OperationKind::kUnprepare;
  operation->claim = claim;
  std::vector<std::shared_ptr<Operation>> to_stop;
  const auto start = Enter(std::move(operation), std::move(waiter), &to_stop);
  Stop(to_stop);
  if (start != nullptr) Schedule(start);
}

void Operations::Schedule(const std::shared_ptr<Operation>& operation) {
  ThreadPool* const pool = operation->kind == OperationKind::kPrepare ? prepares_ : unprepares_;
  pool->Submit([this, operation] { Run(operation); });
}

bool Operations::SomebodyWaits(const Operation& operation) const {
  const absl::MutexLock lock(&mutex_);
  return std::any_of(operation.waiters.begin(), operation.waiters.end(),
                     [](const auto& waiter) { return waiter->open(); });
}

void Operations::Run(const std::shared_ptr<Operation>& operation) {
  if (operation->kind == OperationKind::kUnprepare && operation->stop.stop_requested()) {
    return Finish(operation, absl::CancelledError("the driver is shutting down"));
  }
  if (operation->kind == OperationKind::kPrepare) {
    if (operation->stop.stop_requested()) return Finish(operation, Overtaken(operation->claim));
    if (!SomebodyWaits(*operation)) {
      return Finish(operation, absl::CancelledError("nobody waits for the prepare any more"));
    }
  }
  if (operation->still_blocked != nullptr) {
    if (operation->still_blocked() && !operation->stop.stop_requested()) return Park(operation);
    operation->still_blocked = nullptr;
  }
  Step step = attempt_(*operation);
  if (step.outcome.has_value()) return Finish(operation, *step.outcome);
  operation->blocked = std::move(step.blocked);
  operation->retry_after = step.retry_after;
  operation->wake_on = std::move(step.wake_on);
  operation->still_blocked = std::move(step.still_blocked);
  Park(operation);
}

void Operations::Park(const std::shared_ptr<Operation>& operation) {
  {
    const absl::MutexLock lock(&mutex_);
    for (const auto& waiter : operation->waiters) waiter->SetBlocked(operation->blocked);
    operation->parked = true;
    for (const std::string& name : operation->wake_on) waiting_[name].insert(operation);
    operation->timer = timers_->At(
        std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(operation->retry_after),
        [this, operation] { Wake(operation); });
  }
  // Stopped, or freed, just before it was marked: nobody else would wake it soon.
  if (operation->stop.stop_requested()) Wake(operation);
}

void Operations::Wake(const std::shared_ptr<Operation>& operation) {
  {
    const absl::MutexLock lock(&mutex_);
    if (!operation->parked) return;
    operation->parked = false;
    Forget(operation);
    for (const auto& waiter : operation->waiters) waiter->SetBlocked(absl::OkStatus());
    timers_->Cancel(operation->timer);
  }
  Schedule(operation);
}

void Operations::Finish(const std::shared_ptr<Operation>& operation, const Outcome& outcome) {
  std::vector<std::shared_ptr<PendingAnswer>> waiters;
  std::shared_ptr<Operation> next;
  {
    const absl::MutexLock lock(&mutex_);
    waiters = std::move(operation->waiters);
    const auto slot = slots_.find(operation->claim.uid);
    if (slot->second.queued.empty()) {
      slots_.erase(slot);
    } else {
      next = slot->second.queued.front();
      slot->second.queued.pop_front();
      slot->second.running = next;
    }
    ++answering_;
  }
  ReleasedBy(*operation);
  for (const auto& waiter : waiters) waiter->Give(outcome);
  answered_();
  {
    const absl::MutexLock lock(&mutex_);
    --answering_;
  }
  if (next != nullptr) Schedule(next);
}

void Operations::Released() {
  std::vector<std::shared_ptr<Operation>> waiting;
  {
    const absl::MutexLock lock(&mutex_);
    for (const auto& [name, operations] : waiting_) {
      waiting.insert(waiting.end(), operations.begin(), operations.end());
    }
  }
  for (const auto& operation : waiting) Wake(operation);  // the second time is none
}

void Operations::ReleasedBy(const Operation& operation) {
  std::vector<std::shared_ptr<Operation>> waiting;
  {
    const absl::MutexLock lock(&mutex_);
    if (waiting_.empty()) return;
    const auto add = [&](const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      const auto found = waiting_.find(name);
      if (found == waiting_.end()) return;
      waiting.insert(waiting.end(), found->second.begin(), found->second.end());
    };
    add(operation.claim.uid);
    for (const std::string& key : operation.touched) add(key);
  }
  for (const auto& waiter : waiting) Wake(waiter);
}

void Operations::Forget(const std::shared_ptr<Operation>& operation) {
  for (const std::string& name : operation->wake_on) {
    const auto found = waiting_.find(name);
    if (found == waiting_.end()) continue;
    found->second.erase(operation);
    if (found->second.empty()) waiting_.erase(found);
  }
}

void Operations::CancelAll() {
  std::vector<std::shared_ptr<Operation>> all;
  {
    const absl::MutexLock lock(&mutex_);
    for (const auto& [uid, slot] : slots_) {
      if (slot.running != nullptr) all.push_back(slot.running);
      all.insert(all.end(), slot.queued.begin(), slot.queued.end());
    }
  }
  Stop(all);
}

bool Operations::WaitIdle(absl::Duration timeout) {
  const absl::MutexLock lock(&mutex_);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return slots_.empty() && answering_ == 0;
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&idle), timeout);
}

size_t Operations::Running() const {
  const absl::MutexLock lock(&mutex_);
  return slots_.size();
}

}  // namespace dra::claims
