#include "kubelet/claim_gateway.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/ids.h"
#include "dra/observe/metrics.h"

namespace dra::kubelet {
namespace {

constexpr absl::Duration kOverdueSlack = absl::Milliseconds(500);

const char* NameOf(Method method) {
  return method == Method::kPrepare ? "NodePrepareResources" : "NodeUnprepareResources";
}

absl::Status CheckClaim(const ClaimRef& claim) {
  // The UID names files further down.
  if (!IsSafeFileId(claim.uid)) {
    return absl::InvalidArgumentError(
        absl::StrCat("claim UID \"", claim.uid, "\" is empty or no plain name"));
  }
  if (claim.namespace_name.empty() || claim.name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("claim ", claim.uid, ": namespace and name must not be empty"));
  }
  return absl::OkStatus();
}

void KeepFirstOfEach(std::vector<std::string>& values) {
  std::set<std::string> seen;
  const auto repeated = [&seen](const std::string& value) { return !seen.insert(value).second; };
  values.erase(std::remove_if(values.begin(), values.end(), repeated), values.end());
}

// The kubelet compares request names with those of the pod, which knows only base names ("gpu", not "gpu/large").
void Tidy(PreparedDevice& device) {
  for (std::string& name : device.request_names) name = name.substr(0, name.find('/'));
  KeepFirstOfEach(device.request_names);
  KeepFirstOfEach(device.cdi_ids);
}

}  // namespace

ClaimBatch::ClaimBatch(Method method, std::vector<ClaimRef> claims, absl::Duration time_left,
                       Finish finish)
    : method_(method),
      call_(Call::WithTimeout(std::min(time_left, kMaxCallTime), stop_.get_token())),
      finish_(std::move(finish)) {
  std::map<std::string, ClaimAnswer> refused;
  for (ClaimRef& claim : claims) {
    const auto same = std::find_if(claims_.begin(), claims_.end(), [&claim](const ClaimRef& other) {
      return other.uid == claim.uid;
    });
    if (same != claims_.end()) {
      // Asked twice. Under another name one of the two is wrong, and nobody can tell which.
      if (same->name == claim.name && same->namespace_name == claim.namespace_name) continue;
      refused[claim.uid] = {
          claim.uid,
          absl::InvalidArgumentError(absl::StrCat(
              "claim UID ", claim.uid, " was asked for under two names: ", same->namespace_name,
              "/", same->name, " and ", claim.namespace_name, "/", claim.name)),
          {}};
      claims_.erase(same);
      continue;
    }
    if (refused.count(claim.uid) != 0) continue;
    if (absl::Status status = CheckClaim(claim); !status.ok()) {
      refused[claim.uid] = {claim.uid, std::move(status), {}};
      continue;
    }
    claims_.push_back(std::move(claim));
  }
  absl::MutexLock lock(&mutex_);
  unanswered_ = claims_.size();
  answered_.resize(claims_.size());
  for (const ClaimRef& claim : claims_) answers_.push_back({claim.uid, absl::OkStatus(), {}});
  for (auto& [uid, answer] : refused) answers_.push_back(std::move(answer));
}

void ClaimBatch::Answer(size_t index, absl::Status status, std::vector<PreparedDevice> devices) {
  for (PreparedDevice& device : devices) Tidy(device);
  {
    absl::MutexLock lock(&mutex_);
    if (finished_ || answered_[index]) return;
    answered_[index] = true;
    answers_[index].status = std::move(status);
    answers_[index].devices = std::move(devices);
    if (--unanswered_ != 0) return;
  }
  Complete(absl::OkStatus());
}

void ClaimBatch::FinishIfNothingToDo() {
  if (claims_.empty()) Complete(absl::OkStatus());
}

void ClaimBatch::Cancel() {
  stop_.request_stop();
  Complete(absl::CancelledError("the caller does not wait any more"));
}

void ClaimBatch::AnswerMissing(const absl::Status& missing) {
  stop_.request_stop();
  {
    absl::MutexLock lock(&mutex_);
    if (finished_) return;
    for (size_t i = 0; i < answered_.size(); ++i) {
      if (!answered_[i]) answers_[i].status = missing;
    }
  }
  Complete(absl::OkStatus());
}

void ClaimBatch::Fail(const absl::Status& rpc) { Complete(rpc); }

bool ClaimBatch::Overdue() const {
  return call_.deadline.has_value() &&
         MonotonicTime::clock::now() > *call_.deadline + absl::ToChronoMilliseconds(kOverdueSlack);
}

void ClaimBatch::Complete(const absl::Status& rpc) {
  Finish finish;
  std::vector<ClaimAnswer> answers;
  {
    absl::MutexLock lock(&mutex_);
    if (finished_) return;
    finished_ = true;
    finish = std::move(finish_);
    finish_ = nullptr;
    answers = std::move(answers_);
  }
  finish(rpc, answers);
}

ClaimGateway::ClaimGateway(std::string driver, ClaimHandler* handler, Clock* clock,
                           observe::Metrics* metrics, Logger logger)
    : driver_(std::move(driver)),
      handler_(handler),
      clock_(clock),
      metrics_(metrics),
      logger_(std::move(logger)) {}

std::shared_ptr<ClaimBatch> ClaimGateway::Prepare(Method method, std::vector<ClaimRef> claims,
                                                  absl::Duration time_left,
                                                  ClaimBatch::Finish finish) {
  // The batch is known to the lambda only after it is made; it is held in running_ until then.
  auto self = std::make_shared<std::weak_ptr<ClaimBatch>>();
  const MonotonicTime started = clock_->Monotonic();
  auto batch = std::make_shared<ClaimBatch>(
      method, std::move(claims), time_left,
      [this, self, method, started, finish = std::move(finish)](
          const absl::Status& rpc, const std::vector<ClaimAnswer>& answers) {
        Record(method, rpc, answers, started);
        finish(rpc, answers);
        // Last: WaitUntilIdle returns only when every answer is on its way.
        Leave(self->lock().get());
      });
  *self = batch;
  return batch;
}

void ClaimGateway::Run(const std::shared_ptr<ClaimBatch>& batch) {
  bool refused = false;
  {
    absl::MutexLock lock(&mutex_);
    last_call_ = clock_->Now();
    refused = refusing_;
    if (!refused) running_.insert(batch);
  }
  if (refused) return batch->Fail(absl::UnavailableError("the driver is shutting down"));
  batch->FinishIfNothingToDo();
  for (size_t i = 0; i < batch->claims().size(); ++i) {
    const ClaimRef& claim = batch->claims()[i];
    if (batch->method() == Method::kPrepare) {
      handler_->PrepareClaim(claim, batch->call(),
                             [batch, i](absl::StatusOr<std::vector<PreparedDevice>> devices) {
                               if (devices.ok()) {
                                 batch->Answer(i, absl::OkStatus(), *std::move(devices));
                               } else {
                                 batch->Answer(i, devices.status(), {});
                               }
                             });
    } else {
      handler_->UnprepareClaim(claim, batch->call(), [batch, i](absl::Status status) {
        batch->Answer(i, std::move(status), {});
      });
    }
  }
}

void ClaimGateway::Leave(const ClaimBatch* batch) {
  absl::MutexLock lock(&mutex_);
  for (auto it = running_.begin(); it != running_.end(); ++it) {
    if (it->get() == batch) {
      running_.erase(it);
      return;
    }
  }
}

void ClaimGateway::RefuseNew() {
  absl::MutexLock lock(&mutex_);
  refusing_ = true;
}

bool ClaimGateway::WaitUntilIdle(absl::Duration bound) {
  absl::MutexLock lock(&mutex_);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return running_.empty(); };
  return mutex_.AwaitWithTimeout(absl::Condition(&idle), bound);
}

void ClaimGateway::AnswerAll(const absl::Status& status) {
  std::set<std::shared_ptr<ClaimBatch>> batches;
  {
    absl::MutexLock lock(&mutex_);
    batches = running_;
  }
  for (const auto& batch : batches) batch->AnswerMissing(status);
}

void ClaimGateway::AnswerOverdue() {
  std::set<std::shared_ptr<ClaimBatch>> batches;
  {
    absl::MutexLock lock(&mutex_);
    batches = running_;
  }
  for (const auto& batch : batches) {
    if (!batch->Overdue()) continue;
    batch->AnswerMissing(
        absl::UnavailableError("still working on it: no result in time, ask again"));
  }
}

absl::Time ClaimGateway::last_call() const {
  absl::MutexLock lock(&mutex_);
  return last_call_;
}

void ClaimGateway::Record(Method method, const absl::Status& rpc,
                          const std::vector<ClaimAnswer>& answers, MonotonicTime started) {
  absl::Status outcome = rpc;
  for (const ClaimAnswer& answer : answers) {
    if (outcome.ok()) outcome = answer.status;
  }
  const absl::Duration took = absl::FromChrono(clock_->Monotonic() - started);
  const std::string code = absl::StatusCodeToString(outcome.code());
  logger_.Debug("kubelet call", {{"rpc", NameOf(method)},
                                 {"code", code},
                                 {"took_ms", absl::StrCat(absl::ToInt64Milliseconds(took))}});
  if (metrics_ == nullptr) return;
  metrics_->Increment("dra_kubelet_calls_total",
                      {{"driver", driver_}, {"method", NameOf(method)}, {"code", code}});
  metrics_->Observe("dra_kubelet_call_seconds", absl::ToDoubleSeconds(took),
                    {{"driver", driver_}, {"method", NameOf(method)}});
}

}  // namespace dra::kubelet
