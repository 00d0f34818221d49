#include <map>
#include <set>
#include <string>
#include <utility>

#include "claims/claim_manager_impl.h"
#include "claims/prepare_again.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"

namespace dra::claims {

using records::Phase;
using records::Record;

namespace {
// A temporary file of a note that has been there for so long is not being written. By the monotonic clock, because the
// wall clock jumps.
constexpr absl::Duration kStaleTemporary = absl::Minutes(1);
}  // namespace

void ClaimManagerImpl::Restore(const Call& call) {
  const absl::StatusOr<std::vector<records::RecordStore::Item>> items = core_.store.List();
  if (!items.ok()) {
    core_.deps.logger.Error(
        "restore: the records cannot be read, nothing is swept",
        {{"driver", core_.options.driver_name}, {"error", items.status().ToString()}});
    return;
  }
  const bool first = !restored_.exchange(true);
  for (const records::RecordStore::Item& item : *items) {
    if (!call.Check("restore").ok()) return;
    if (!item.record.ok()) continue;
    if (WantsPrepareAgain(core_, *item.record)) {
      const absl::MutexLock lock(&mutex_);
      prepare_again_.insert(item.claim_uid);
    }
    RestoreClaim(*item.record, first, call);
  }
  DecideLostRecords(call);
  SweepFiles();
  SweepTemporaries();
  RemoveStaleHolds();
  core_.deps.fs->FreeRemoved();  // also of the orphans that were released
}

void ClaimManagerImpl::RestoreClaim(const Record& record, bool submit_status, const Call& call) {
  // After a reboot device numbers differ: then the backend has to be asked, at the next prepare (CKP-05).
  if (record.phase != Phase::kPrepared || !core_.SameBoot(record)) return;
  const std::string& uid = record.claim.uid;
  const auto matches = [&](const Record& now) {
    if (ClaimCore::NothingToInject(now)) return true;
    const absl::StatusOr<bool> same =
        core_.deps.cdi->Matches(uid, ClaimCore::CdiDevices(now), now.claim_edits);
    return same.ok() && *same;
  };
  if (!submit_status && matches(record)) return;  // the usual case of a repetition takes no lock
  absl::StatusOr<records::OperationLock> lock =
      core_.locks.LockClaim(uid, call.AtMost(kLockPatience));
  if (absl::IsUnavailable(lock.status())) return;  // an operation runs, and does it itself
  absl::Status status = lock.status();
  if (status.ok()) {
    const absl::StatusOr<Record> now = core_.store.Load(uid);
    if (absl::IsNotFound(now.status())) return;
    status = now.status();
    if (now.ok() && now->phase == Phase::kPrepared) {
      if (!matches(*now)) status = core_.EnsureCdi(*now, /*may_match=*/false).status();
      if (submit_status) core_.SubmitStatus(*now);
    }
  }
  if (status.ok()) return;
  core_.deps.logger.Error("the CDI file of a prepared claim could not be restored",
                          {{"claim_uid", uid}, {"error", status.ToString()}});
}

void ClaimManagerImpl::SweepFiles() {
  const absl::StatusOr<std::vector<std::string>> claims = core_.files.ListClaims();
  const absl::StatusOr<std::vector<std::string>> cdi_files = core_.deps.cdi->ListClaims();
  if (!claims.ok() || !cdi_files.ok()) return;
  const std::set<std::string> has_cdi_file(cdi_files->begin(), cdi_files->end());
  for (const std::string& uid : *claims) {
    records::OperationLock lock;
    // A claim whose record was lost may have a pod that uses the files: its CDI file is decided first.
    if (!IsSafeFileId(uid) || has_cdi_file.contains(uid) || !LockForgotten(uid, &lock)) continue;
    // Only a directory of that name is one of a claim: neither a link nor a file that somebody put there.
    const absl::StatusOr<FileInfo> info = core_.deps.fs->Stat(JoinPath(core_.Path("files"), uid));
    if (info.ok() ? info->type != FileType::kDirectory : !absl::IsNotFound(info.status())) continue;
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
  const auto cdi = core_.deps.cdi->ListTemporaries();
  if (cdi.ok()) {
    for (const std::string& uid : *cdi) {
      sweep(uid, [&] { return core_.deps.cdi->RemoveTemporaries(uid); });
    }
  }
  for (const absl::Status& swept :
       {core_.files.SweepShared(Call::WithTimeout(kLockPatience)), SweepNotes()}) {
    if (swept.ok()) continue;
    core_.deps.logger.Warn("left-over files of killed writers stay",
                           {{"driver", core_.options.driver_name}, {"error", swept.ToString()}});
  }
}

absl::Status ClaimManagerImpl::SweepNotes() {
  DRA_ASSIGN_OR_RETURN(const std::vector<std::string> paths, core_.notes.ListTemporaries());
  const MonotonicTime now = core_.deps.clock->Monotonic();
  std::map<std::string, MonotonicTime> before;
  {
    const absl::MutexLock lock(&mutex_);
    before.swap(note_temporaries_);
  }
  std::map<std::string, MonotonicTime> seen;
  absl::Status first;
  for (const std::string& path : paths) {
    const auto found = before.find(path);
    const MonotonicTime since = found == before.end() ? now : found->second;
    if (now - since < absl::ToChronoNanoseconds(kStaleTemporary)) {
      seen.emplace(path, since);
    } else {
      first.Update(RemoveIfExists(*core_.deps.fs, path));
    }
  }
  const absl::MutexLock lock(&mutex_);
  note_temporaries_ = std::move(seen);
  return first;
}

}  // namespace dra::claims
