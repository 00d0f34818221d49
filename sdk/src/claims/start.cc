#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "claims/claim_manager_impl.h"
#include "dra/base/status.h"

namespace dra::claims {

using records::Phase;
using records::Record;

absl::Status ClaimManagerImpl::Start() {
  const std::string context = absl::StrCat("claims of driver ", core_.options.driver_name);
  DRA_RETURN_IF_ERROR(
      Annotate(MakeDirectories(*core_.deps.fs, core_.options.data_directory, 0750), context));
  DRA_RETURN_IF_ERROR(Annotate(core_.store.Open(), context));
  DRA_RETURN_IF_ERROR(Annotate(core_.ledger.Open(), context));
  absl::StatusOr<std::vector<records::RecordStore::Item>> items = core_.store.List();
  if (!items.ok()) return Annotate(items.status(), context);
  for (const records::RecordStore::Item& item : *items) EnterRecord(item);
  RemoveStaleHolds();
  return absl::OkStatus();
}

void ClaimManagerImpl::EnterRecord(const records::RecordStore::Item& item) {
  const Logger logger = core_.deps.logger.With(
      {{"driver", core_.options.driver_name}, {"claim_uid", item.claim_uid}});
  const bool damaged = absl::IsDataLoss(item.record.status()) ||
                       (item.record.ok() && item.record->phase == Phase::kQuarantined);
  if (damaged) {
    // Under the claim's lock: another instance may be writing it just now.
    const absl::StatusOr<records::OperationLock> lock = core_.locks.TryLockClaim(item.claim_uid);
    if (!lock.ok())
      return logger.Warn("a damaged record is in use", {{"error", lock.status().ToString()}});
    const auto entered = core_.LoadOrQuarantine({"", "", item.claim_uid});
    if (!entered.ok()) {
      return logger.Error("a damaged record could not be moved aside",
                          {{"error", entered.status().ToString()}});
    }
    if (entered->has_value()) core_.table.Put(**entered);
    return;
  }
  if (!item.record.ok()) {
    // Nothing is known about this claim, and its holds stay: every call for it says the same.
    return logger.Error("a record cannot be read", {{"error", item.record.status().ToString()}});
  }
  core_.table.Put(*item.record);
  if (core_.SameBoot(*item.record)) CompleteHolds(*item.record);
}

void ClaimManagerImpl::CompleteHolds(const Record& record) {
  const std::vector<std::string> known = core_.ledger.KnownKeys(record.claim.uid);
  std::vector<records::Hold> missing;
  for (records::Hold& hold : records::HoldsOf(record)) {
    if (std::find(known.begin(), known.end(), hold.key) == known.end())
      missing.push_back(std::move(hold));
  }
  if (missing.empty()) return;
  const Call call = Call::WithTimeout(kLockPatience);
  absl::StatusOr<records::OperationLock> lock = core_.locks.LockClaim(record.claim.uid, call);
  absl::Status status = lock.status();
  if (status.ok()) status = lock->LockKeys(records::KeysOf(missing), call);
  // The claim may have been unprepared by another instance since its record was read.
  if (status.ok()) {
    const absl::StatusOr<bool> recorded = core_.store.Exists(record.claim.uid);
    status = recorded.status();
    if (recorded.ok() && !*recorded) return;
  }
  if (status.ok()) status = core_.ledger.Write(missing);
  if (status.ok()) return;
  core_.deps.logger.Error("the holds of a recorded claim could not be completed",
                          {{"claim_uid", record.claim.uid}, {"error", status.ToString()}});
}

void ClaimManagerImpl::RemoveStaleHolds() {
  const absl::StatusOr<std::vector<records::Hold>> all = core_.ledger.All();
  if (!all.ok())
    return;  // read a moment ago; a hold in the way is looked at again when it is in the way
  std::set<std::string> claims;
  for (const records::Hold& hold : *all) claims.insert(hold.claim.uid);
  for (const std::string& uid : claims) {
    records::OperationLock lock;
    if (!LockForgotten(uid, &lock)) continue;
    const absl::Status removed = core_.ledger.Remove(uid, core_.ledger.KnownKeys(uid));
    if (!removed.ok()) {
      core_.deps.logger.Warn("stale holds stay",
                             {{"claim_uid", uid}, {"error", removed.ToString()}});
    }
  }
}

bool ClaimManagerImpl::LockForgotten(const std::string& claim_uid, records::OperationLock* lock) {
  const absl::StatusOr<bool> recorded = core_.store.Exists(claim_uid);
  if (!recorded.ok() || *recorded || core_.table.Unsaved(claim_uid).has_value()) return false;
  absl::StatusOr<records::OperationLock> taken = core_.locks.TryLockClaim(claim_uid);
  if (!taken.ok()) return false;
  // Once more under the lock: an operation may have ended in between.
  const absl::StatusOr<bool> still = core_.store.Exists(claim_uid);
  if (!still.ok() || *still) return false;
  *lock = *std::move(taken);
  return true;
}

}  // namespace dra::claims
