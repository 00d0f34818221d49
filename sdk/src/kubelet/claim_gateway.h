#pragma once

#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "dra/base/call.h"
#include "dra/base/logger.h"
#include "dra/kubelet/plugin_server.h"

namespace dra::kubelet {

// The longest a call may take: the kubelet gives up at 45 s.
inline constexpr absl::Duration kMaxCallTime = absl::Seconds(44);

struct ClaimAnswer {
  std::string claim_uid;
  absl::Status status;
  std::vector<PreparedDevice> devices;  // of a prepare that is OK
};

enum class Method { kPrepare, kUnprepare };

// One NodePrepareResources or NodeUnprepareResources call: its claims run in parallel, and it is answered when all are,
// or when it is cancelled, expired or aborted. Any thread.
class ClaimBatch {
 public:
  // Runs exactly once. `rpc` is not OK only where the whole call fails; else one answer for each claim UID asked about.
  using Finish =
      std::function<void(const absl::Status& rpc, const std::vector<ClaimAnswer>& answers)>;

  ClaimBatch(Method method, std::vector<ClaimRef> claims, absl::Duration time_left, Finish finish);

  Method method() const { return method_; }
  // The claims to hand to the handler: each UID once, only those that may be handled.
  const std::vector<ClaimRef>& claims() const { return claims_; }
  const Call& call() const { return call_; }

  // The answer for claims()[index]; later ones for the same index are ignored.
  void Answer(size_t index, absl::Status status, std::vector<PreparedDevice> devices);
  // Nobody waits any more: tells the handler, finishes with Cancelled.
  void Cancel();
  // Finishes with what is there; the claims that have no answer get `missing`.
  void AnswerMissing(const absl::Status& missing);
  // Fails the whole call.
  void Fail(const absl::Status& rpc);
  // Finishes at once if nothing is to be handled.
  void FinishIfNothingToDo();

  bool Overdue() const;

 private:
  void Complete(const absl::Status& rpc);

  const Method method_;
  std::vector<ClaimRef> claims_;
  std::stop_source stop_;
  Call call_;

  absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  size_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<bool> answered_ ABSL_GUARDED_BY(mutex_);
  std::vector<ClaimAnswer> answers_
      ABSL_GUARDED_BY(mutex_);  // first claims_, in order, then refused ones
  Finish finish_ ABSL_GUARDED_BY(mutex_);
};

// Between the services and the handler: which calls run, what they cost, how they end. Any thread.
class ClaimGateway {
 public:
  // All outlive this; metrics may be null.
  ClaimGateway(std::string driver, ClaimHandler* handler, Clock* clock, observe::Metrics* metrics,
               Logger logger);

  // A batch that has not begun; Run hands its claims to the handler.
  std::shared_ptr<ClaimBatch> Prepare(Method method, std::vector<ClaimRef> claims,
                                      absl::Duration time_left, ClaimBatch::Finish finish);
  void Run(const std::shared_ptr<ClaimBatch>& batch);

  // From now on Run fails a batch with Unavailable.
  void RefuseNew();
  // False if calls still run after `bound`.
  bool WaitUntilIdle(absl::Duration bound);
  // Answers every running call; claims without an answer get `status`.
  void AnswerAll(const absl::Status& status);
  // Answers the calls whose time is over and whose handler is still silent.
  void AnswerOverdue();

  // Of the last call; InfinitePast: never.
  absl::Time last_call() const;

 private:
  void Leave(const ClaimBatch* batch);
  void Record(Method method, const absl::Status& rpc, const std::vector<ClaimAnswer>& answers,
              MonotonicTime started);

  const std::string driver_;
  ClaimHandler* const handler_;
  Clock* const clock_;
  observe::Metrics* const metrics_;
  const Logger logger_;

  mutable absl::Mutex mutex_;
  bool refusing_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::shared_ptr<ClaimBatch>> running_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_call_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace dra::kubelet
