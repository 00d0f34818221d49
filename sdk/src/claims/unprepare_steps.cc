#include "claims/unprepare_steps.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "claims/road_back.h"
#include "dra/base/status.h"
#include "dra/loader/uncreated_backend.h"

namespace dra::claims {
namespace {

// Nobody knows the claim: success (PRP-12). What a prepare that died without a record left of it goes too.
absl::Status ForgetUnknown(ClaimCore& core, records::OperationLock& lock,
                           const loader::ClaimIdentity& claim, const Call& call) {
  DRA_RETURN_IF_ERROR(core.deps.cdi->Remove(claim.uid));
  const std::vector<std::string> keys = core.ledger.KnownKeys(claim.uid);
  if (keys.empty()) return absl::OkStatus();
  DRA_RETURN_IF_ERROR(lock.LockKeys(keys, call));
  return core.ledger.Remove(claim.uid, keys);
}

// A failed unprepare costs the pod a retry of the kubelet's, so one that comes before the backend's create waits for it,
// but not past what a call has (design 3.4): a backend that is never created is an error.
bool MayWaitForCreate(const ClaimCore& core, Operation& operation) {
  constexpr std::chrono::seconds kCreatePatience(30);
  const MonotonicTime now = core.deps.clock->Monotonic();
  if (!operation.uncreated_since.has_value()) operation.uncreated_since = now;
  return !operation.stop.stop_requested() && now - *operation.uncreated_since < kCreatePatience;
}

}  // namespace

Step AttemptUnprepare(ClaimCore& core, Operation& operation) {
  const loader::ClaimIdentity& claim = operation.claim;
  const std::string context = absl::StrCat("unprepare ", ClaimText(claim));
  const Call lock_call = Call::WithTimeout(kLockPatience, operation.stop.get_token());
  const auto locked_out = [&](const absl::Status& status, std::vector<std::string> keys) {
    if (!absl::IsUnavailable(status)) return Step::Done(Annotate(status, context));
    std::vector<std::string> wake_on = keys;
    wake_on.push_back(claim.uid);
    return Step::Wait(Annotate(status, context), kHolderPoll, std::move(wake_on),
                      [&core, uid = claim.uid, keys = std::move(keys)] {
                        const absl::StatusOr<bool> free = core.locks.IsFree(uid, keys);
                        return free.ok() && !*free;
                      });
  };

  absl::StatusOr<records::OperationLock> lock = core.locks.LockClaim(claim.uid, lock_call);
  if (!lock.ok()) return locked_out(lock.status(), {});
  absl::StatusOr<std::optional<records::Record>> record = core.LoadOrQuarantine(claim);
  if (!record.ok()) return Step::Done(Annotate(record.status(), context));
  if (!record->has_value()) {
    const absl::Status forgotten = ForgetUnknown(core, *lock, claim, lock_call);
    if (absl::IsUnavailable(forgotten)) {
      return locked_out(forgotten, core.ledger.KnownKeys(claim.uid));
    }
    if (!forgotten.ok()) return Step::Done(Annotate(forgotten, context));
    core.table.Erase(claim.uid);
    return Step::Done(std::vector<PreparedDevice>());
  }

  records::Record& known = **record;
  const std::vector<std::string> keys = KeysOfRecord(core, known);
  operation.touched = keys;
  const absl::Status keys_locked = lock->LockKeys(keys, lock_call);
  if (!keys_locked.ok()) return locked_out(keys_locked, keys);
  if (known.phase == records::Phase::kQuarantined) {
    const absl::StatusOr<std::vector<std::string>> shared = core.files.SharedOf(claim.uid);
    if (shared.ok()) known.shared_files = *shared;
  }
  RoadBack road;
  road.call_backend = BackendMayHaveBegun(known);
  const absl::Status undone =
      WalkBack(core, std::move(known), keys, road, operation.stop.get_token());
  if (undone.ok()) return Step::Done(std::vector<PreparedDevice>());
  if (loader::IsUncreated(undone) && MayWaitForCreate(core, operation)) {
    return Step::Wait(Annotate(undone, context), Backoff(operation.failures++));
  }
  return Step::Done(Annotate(undone, context));
}

}  // namespace dra::claims
