#include <utility>

#include "absl/strings/str_cat.h"
#include "claims/claim_manager_impl.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"

namespace dra::claims {

using records::Phase;
using records::Record;

void ClaimManagerImpl::Restore(const Call& call) {
  const absl::StatusOr<std::vector<records::RecordStore::Item>> items = core_.store.List();
  if (!items.ok()) {
    core_.deps.logger.Error(
        "restore: the records cannot be read, nothing is swept",
        {{"driver", core_.options.driver_name}, {"error", items.status().ToString()}});
    return;
  }
  for (const records::RecordStore::Item& item : *items) {
    if (!call.Check("restore").ok()) return;
    if (item.record.ok()) RestoreClaim(*item.record, call);
  }
  SweepCdi(!items->empty(), call);
  SweepFiles();
  SweepTemporaries();
  RemoveStaleHolds();
}

void ClaimManagerImpl::RestoreClaim(const Record& record, const Call& call) {
  // After a reboot device numbers differ: then the backend has to be asked, at the next prepare (CKP-05).
  if (record.phase != Phase::kPrepared || !core_.SameBoot(record)) return;
  const std::string& uid = record.claim.uid;
  absl::StatusOr<records::OperationLock> lock =
      core_.locks.LockClaim(uid, call.AtMost(kLockPatience));
  if (absl::IsUnavailable(lock.status())) return;  // an operation runs, and does it itself
  absl::Status status = lock.status();
  if (status.ok()) {
    const absl::StatusOr<Record> now = core_.store.Load(uid);
    if (absl::IsNotFound(now.status())) return;
    status = now.status();
    if (now.ok() && now->phase == Phase::kPrepared) {
      const absl::StatusOr<bool> matches =
          ClaimCore::NothingToInject(*now)
              ? true
              : core_.deps.cdi->Matches(uid, ClaimCore::CdiDevices(*now), now->claim_edits);
      if (!matches.ok() || !*matches) status = core_.EnsureCdi(*now, /*may_match=*/false).status();
      core_.SubmitStatus(*now);
    }
  }
  if (status.ok()) return;
  core_.deps.logger.Error("the CDI file of a prepared claim could not be restored",
                          {{"claim_uid", uid}, {"error", status.ToString()}});
}

void ClaimManagerImpl::SweepCdi(bool any_record, const Call& call) {
  const absl::StatusOr<std::vector<std::string>> claims = core_.deps.cdi->ListClaims();
  if (!claims.ok()) {
    core_.deps.logger.Error("restore: the CDI directory cannot be read",
                            {{"error", claims.status().ToString()}});
    return;
  }
  if (claims->empty()) return;
  // No record at all but CDI files: perhaps the records are what was lost. Only the API server can tell.
  if (!any_record) {
    core_.deps.logger.Warn("there are CDI files of claims but no records; the files are kept",
                           {{"driver", core_.options.driver_name}});
    return;
  }
  for (const std::string& uid : *claims) {
    if (!call.Check("restore").ok()) return;
    records::OperationLock lock;
    if (!IsSafeFileId(uid) || !LockForgotten(uid, &lock)) continue;
    const absl::Status removed = core_.deps.cdi->Remove(uid);
    core_.deps.logger.Info("removed the CDI file of a claim that has no record",
                           {{"claim_uid", uid}, {"error", removed.ToString()}});
  }
}

void ClaimManagerImpl::SweepFiles() {
  const absl::StatusOr<std::vector<std::string>> claims = core_.files.ListClaims();
  if (!claims.ok()) return;
  for (const std::string& uid : *claims) {
    records::OperationLock lock;
    if (!IsSafeFileId(uid) || !LockForgotten(uid, &lock)) continue;
    const absl::StatusOr<std::vector<std::string>> shared = core_.files.SharedOf(uid);
    if (!shared.ok()) continue;
    const absl::Status removed = core_.files.Remove(uid, *shared, Call::WithTimeout(kLockPatience));
    if (!removed.ok()) {
      core_.deps.logger.Warn("files of a forgotten claim stay",
                             {{"claim_uid", uid}, {"error", removed.ToString()}});
    }
  }
}

void ClaimManagerImpl::SweepTemporaries() {
  const auto sweep = [&](const std::string& uid, auto remove) {
    // A living writer has the claim's lock.
    if (!IsSafeFileId(uid)) return;
    const absl::StatusOr<records::OperationLock> lock = core_.locks.TryLockClaim(uid);
    if (lock.ok()) (void)remove();
  };
  const auto records = core_.store.ListTemporaries();
  if (records.ok()) {
    for (const auto& temporary : *records) {
      sweep(temporary.claim_uid, [&] { return core_.store.RemoveTemporary(temporary); });
    }
  }
  const auto holds = core_.ledger.ListTemporaries();
  if (holds.ok()) {
    for (const auto& temporary : *holds) {
      sweep(temporary.claim_uid, [&] { return RemoveIfExists(*core_.deps.fs, temporary.path); });
    }
  }
}

}  // namespace dra::claims
