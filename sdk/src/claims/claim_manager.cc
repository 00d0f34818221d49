#include "dra/claims/claim_manager.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "claims/claim_manager_impl.h"
#include "claims/prepare_steps.h"
#include "claims/unprepare_steps.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"
#include "dra/observe/metrics.h"

namespace dra::claims {
namespace {

absl::Status Refusal() {
  return absl::UnavailableError("the driver is shutting down; the next instance answers");
}

absl::Status CheckIdentity(const loader::ClaimIdentity& claim) {
  if (IsSafeFileId(claim.uid)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("claim ", claim.namespace_name, "/", claim.name,
                                                 ": uid \"", claim.uid, "\" is not a uid"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClaimManager>> ClaimManager::Create(Options options,
                                                                   Dependencies dependencies) {
  if (options.driver_name.empty() || options.data_directory.empty() ||
      !IsSafeFileId(options.boot_id)) {
    return absl::InvalidArgumentError("claims: driver name, data directory and boot id are needed");
  }
  if (options.prepare_threads < 1 || options.unprepare_threads < 1) {
    return absl::InvalidArgumentError(
        "claims: at least one thread for prepare and one for unprepare");
  }
  auto manager = std::make_unique<ClaimManagerImpl>(std::move(options), std::move(dependencies));
  DRA_RETURN_IF_ERROR(manager->Start());
  return std::unique_ptr<ClaimManager>(std::move(manager));
}

ClaimManagerImpl::ClaimManagerImpl(Options options, Dependencies dependencies)
    : core_(std::move(options), std::move(dependencies)),
      operations_(
          &prepares_, &unprepares_, &timers_,
          [this](Operation& operation) {
            return operation.kind == OperationKind::kPrepare ? AttemptPrepare(core_, operation)
                                                             : AttemptUnprepare(core_, operation);
          },
          [this] { core_.deps.fs->FreeRemoved(); }),
      prepares_(core_.options.prepare_threads),
      unprepares_(core_.options.unprepare_threads) {
  core_.on_released = [this] { operations_.Released(); };
}

ClaimManagerImpl::~ClaimManagerImpl() { Shutdown(absl::ZeroDuration()); }

bool ClaimManagerImpl::EnterCall() {
  const absl::MutexLock lock(&mutex_);
  if (refusing_) return false;
  ++reading_;
  ++calls_;
  return true;
}

void ClaimManagerImpl::LeaveCall() {
  const absl::MutexLock lock(&mutex_);
  --reading_;
}

std::shared_ptr<PendingAnswer> ClaimManagerImpl::Answer(absl::string_view operation,
                                                        const loader::ClaimIdentity& claim,
                                                        const Call& call,
                                                        std::function<void(Outcome)> done) {
  const std::string name(operation);
  const MonotonicTime begin = core_.deps.clock->Monotonic();
  return PendingAnswer::Create(
      absl::StrCat(name, " ", ClaimText(claim)), call, core_.options.answer_limit, &timers_,
      [this, name, claim, begin, done = std::move(done)](Outcome outcome) {
        const absl::Duration took = absl::FromChrono(core_.deps.clock->Monotonic() - begin);
        const std::string code = absl::StatusCodeToString(outcome.status().code());
        if (core_.deps.metrics != nullptr) {
          const std::string& driver = core_.options.driver_name;
          core_.deps.metrics->Increment("dra_claim_operations_total",
                                        {{"driver", driver}, {"operation", name}, {"code", code}});
          core_.deps.metrics->Observe("dra_claim_operation_seconds", absl::ToDoubleSeconds(took),
                                      {{"driver", driver}, {"operation", name}});
        }
        const Logger logger =
            core_.deps.logger.With({{"driver", core_.options.driver_name},
                                    {"claim", absl::StrCat(claim.namespace_name, "/", claim.name)},
                                    {"claim_uid", claim.uid},
                                    {"took_ms", absl::StrCat(absl::ToInt64Milliseconds(took))}});
        if (outcome.ok()) {
          logger.Info(absl::StrCat("claim ", name, "d"));
        } else {
          logger.Warn(absl::StrCat(name, " failed"),
                      {{"code", code}, {"error", std::string(outcome.status().message())}});
          if (outcome.status().GetPayload(kHeldPayload).has_value()) {
            core_.Warn(claim, "DeviceHeld", "Prepare", outcome.status().message());
          }
        }
        done(std::move(outcome));
        const absl::MutexLock lock(&mutex_);
        --calls_;
      });
}

void ClaimManagerImpl::Prepare(const loader::ClaimIdentity& claim, const Call& call,
                               PrepareDone done) {
  const absl::Status named = CheckIdentity(claim);
  if (!named.ok()) return done(named);
  if (!EnterCall()) return done(Refusal());
  auto entered = std::make_shared<PrepareCall>();
  entered->claim = claim;
  entered->answer = Answer("prepare", claim, call, std::move(done));
  prepares_.Submit([this, entered] { ReadThenSubmit(entered); });
}

void ClaimManagerImpl::ReadThenSubmit(std::shared_ptr<PrepareCall> call) {
  bool refusing = false;
  {
    const absl::MutexLock lock(&mutex_);
    refusing = refusing_;
  }
  if (refusing) call->answer->Give(Refusal());
  if (!call->answer->open()) return LeaveCall();
  Call read = call->answer->call();
  read.stop = shutdown_.get_token();  // others may wait for what this call begins
  absl::StatusOr<resource::ResourceClaim> claim =
      core_.deps.claims->GetClaim(call->claim.namespace_name, call->claim.name, read);
  absl::Status status =
      claim.ok() ? CheckClaim(call->claim, *claim) : Annotate(claim.status(), "read the claim");
  if (status.ok()) {
    const std::string digest = resource::AllocationDigest(*claim, core_.options.driver_name);
    operations_.SubmitPrepare(call->claim, *std::move(claim), digest, call->answer);
    return LeaveCall();
  }
  status = Annotate(status, absl::StrCat("prepare ", ClaimText(call->claim)));
  if (claim.ok() || !MayPass(status)) {
    call->answer->Give(status);
    return LeaveCall();
  }
  // A failed prepare costs the pod a minute or more, so what may pass is tried again within the call.
  call->answer->SetBlocked(status);
  const MonotonicTime again =
      std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(Backoff(call->failures++));
  timers_.At(again, [this, call] {
    call->answer->SetBlocked(absl::OkStatus());
    prepares_.Submit([this, call] { ReadThenSubmit(call); });
  });
}

void ClaimManagerImpl::Unprepare(const loader::ClaimIdentity& claim, const Call& call,
                                 UnprepareDone done) {
  const absl::Status named = CheckIdentity(claim);
  if (!named.ok()) return done(named);
  if (!EnterCall()) return done(Refusal());
  operations_.SubmitUnprepare(
      claim, Answer("unprepare", claim, call,
                    [done = std::move(done)](Outcome outcome) { done(outcome.status()); }));
  LeaveCall();
}

void ClaimManagerImpl::Shutdown(absl::Duration bound) {
  const MonotonicTime end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(bound);
  {
    const absl::MutexLock lock(&mutex_);
    refusing_ = true;
  }
  if (!operations_.WaitIdle(bound)) {
    core_.deps.logger.Warn("claim operations did not end in time and are cancelled",
                           {{"driver", core_.options.driver_name}});
  }
  timers_.Hurry();  // whoever only waits for another try is answered now
  const auto nobody_reads = [this]()
                                ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return reading_ == 0; };
  {
    const absl::MutexLock lock(&mutex_);
    const auto left = absl::FromChrono(end - std::chrono::steady_clock::now());
    mutex_.AwaitWithTimeout(absl::Condition(&nobody_reads), std::max(left, absl::ZeroDuration()));
  }
  shutdown_.request_stop();
  // A call that was reading its claim may still enter an operation: cancel until nothing is left.
  for (;;) {
    operations_.CancelAll();
    constexpr absl::Duration kRound = absl::Milliseconds(100);
    const bool idle = operations_.WaitIdle(kRound);
    const absl::MutexLock lock(&mutex_);
    if (idle && mutex_.AwaitWithTimeout(absl::Condition(&nobody_reads), kRound)) break;
  }
  operations_.WaitIdle(absl::InfiniteDuration());
  const auto all_answered = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_ == 0; };
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&all_answered));
}

std::vector<ClaimSummary> ClaimManagerImpl::Claims() const { return core_.table.Claims(); }

std::vector<std::string> ClaimManagerImpl::HeldIdentities() const {
  return core_.table.HeldIdentities();
}

}  // namespace dra::claims
