#include "claims/road_back.h"

#include <cerrno>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"

namespace dra::claims {
namespace {

using records::Phase;
using records::Record;

// Without undo data the phase need only survive the process: after a power cut another boot begins anyway.
Durability For(const Record& record) {
  return record.has_undo ? Durability::kDurable : Durability::kVolatile;
}

absl::Status WritePhase(ClaimCore& core, Record& record, const RoadBack& road) {
  record.phase = Phase::kUnpreparing;
  record.since = core.deps.clock->Now();
  const absl::Status written = road.differs
                                   ? core.store.Save(record, For(record))
                                   : core.store.MarkUnpreparing(record.claim.uid, For(record));
  if (written.ok()) {
    core.table.Put(record);
    return written;
  }
  // A full disk must not keep a claim from being released: removing frees space. The phase is remembered here, so
  // that no prepare of this process takes the record for a prepared one.
  const int error = ErrnoOf(written).value_or(0);
  if (!road.must_go_on && error != ENOSPC && error != EDQUOT) {
    return Annotate(written, ClaimText(ClaimCore::Identity(record)));
  }
  core.deps.logger.Warn("the record could not be marked, going on without",
                        {{"claim_uid", record.claim.uid}, {"error", written.ToString()}});
  core.table.PutUnsaved(record);
  return absl::OkStatus();
}

absl::Status CallBackend(ClaimCore& core, const Record& record,
                         absl::StatusOr<std::vector<loader::OtherClaim>> others,
                         const std::stop_token& stop) {
  // Without them a backend might take away what another claim uses too.
  DRA_RETURN_IF_ERROR(others.status());
  loader::UnprepareArgs args;
  args.claim = ClaimCore::Identity(record);
  args.devices = ClaimCore::HookDevices(record);
  args.undo = record.undo;
  args.others = *std::move(others);
  const auto hook = std::make_shared<RunningHook>(&core.store, core.deps.clock, record);
  const auto registration = core.hooks.Add(hook, record.claim.uid);
  absl::Duration limit = kPrepareLimit;
  const auto manifest = core.deps.backend->GetManifest();
  if (manifest.ok()) {
    limit = HookLimitOf(**manifest, "unprepare", kPrepareLimit);
    core.WarnOfOlderBackend(record, **manifest, "Unprepare");
  }
  return core.deps.backend->Unprepare(args, Call::WithTimeout(limit, stop));
}

// Records that the backend could not undo it.
void WriteDirty(ClaimCore& core, Record record, const absl::Status& failed, bool on_disk) {
  // An absent backend has done nothing: the way back has only not gone on.
  const bool absent = absl::IsUnavailable(failed) || absl::IsFailedPrecondition(failed) ||
                      absl::IsCancelled(failed);
  const std::string text(failed.message());
  if (record.phase == Phase::kQuarantined) {
    record.last_error = text;
    core.table.Put(record);
    return;
  }
  const Phase phase = absent && on_disk ? record.phase : Phase::kDirty;
  if (on_disk && phase == record.phase && record.last_error == text) return;
  if (phase != record.phase) record.since = core.deps.clock->Now();
  record.phase = phase;
  record.last_error = text;
  // Its name says the phase already, and the reason is said again by every try.
  if (phase == Phase::kUnpreparing && !core.table.Unsaved(record.claim.uid).has_value()) {
    core.table.Put(record);
    return;
  }
  const absl::Status written =
      core.store.Save(record, on_disk ? For(record) : Durability::kDurable);
  if (written.ok()) {
    core.table.Put(record);
    return;
  }
  core.deps.logger.Error(
      "leftovers of a claim could not be recorded, they are known to this process only",
      {{"claim_uid", record.claim.uid}, {"error", written.ToString()}});
  core.table.PutUnsaved(record);
}

}  // namespace

bool BackendMayHaveBegun(const Record& record) {
  return record.phase != Phase::kPreparing || record.has_undo;
}

std::vector<std::string> KeysOfRecord(const ClaimCore& core, const Record& record) {
  std::set<std::string> keys;
  if (record.phase != Phase::kQuarantined) {
    for (const records::Hold& hold : records::HoldsOf(record)) keys.insert(hold.key);
  }
  for (const std::string& key : core.ledger.KnownKeys(record.claim.uid)) keys.insert(key);
  return {keys.begin(), keys.end()};
}

absl::Status WalkBack(ClaimCore& core, Record record, const std::vector<std::string>& keys,
                      const RoadBack& road, const std::stop_token& stop) {
  const std::string& uid = record.claim.uid;
  const loader::ClaimIdentity claim = ClaimCore::Identity(record);
  absl::StatusOr<std::vector<loader::OtherClaim>> others = std::vector<loader::OtherClaim>();
  if (road.call_backend) others = core.OthersOn(uid, keys);
  if (!others.ok() && !road.must_go_on) {
    return Annotate(others.status(),
                    absl::StrCat("look for other claims on the hardware of ", ClaimText(claim)));
  }
  const bool unmarked = record.phase == Phase::kPreparing || record.phase == Phase::kPrepared;
  if (road.on_disk && road.call_backend && unmarked) {
    DRA_RETURN_IF_ERROR(WritePhase(core, record, road));
  }

  const absl::Status file_removed = core.deps.cdi->Remove(uid);
  if (!file_removed.ok()) {
    if (!road.must_go_on) return file_removed;
    core.deps.logger.Warn("the CDI file of a failed prepare stays",
                          {{"claim_uid", uid}, {"error", file_removed.ToString()}});
  }

  if (road.call_backend) {
    const absl::Status undone = CallBackend(core, record, std::move(others), stop);
    if (!undone.ok()) {
      WriteDirty(core, record, undone, road.on_disk);
      return Annotate(undone,
                      absl::StrCat("the backend could not unprepare ", ClaimText(claim),
                                   "; the record is kept and a repeated unprepare tries again"));
    }
  }

  const absl::Status removed = core.store.Remove(uid);
  if (!removed.ok()) {
    // The hardware is free, the file says otherwise: what this process knows outranks it.
    record.phase = Phase::kUnpreparing;
    core.table.PutUnsaved(record);
    return Annotate(removed, absl::StrCat("remove the record of ", ClaimText(claim)));
  }
  core.table.Erase(uid);
  // From here on the claim is released. What cannot be removed any more holds nothing (a hold without a record is
  // stale) and is swept at the next start, so it is no reason to let a pod hang.
  constexpr absl::Duration kLeafLock = absl::Seconds(5);
  const absl::Status files_removed =
      core.files.Remove(uid, record.shared_files, Call::WithTimeout(kLeafLock));
  const absl::Status holds_removed = core.ledger.Remove(uid, keys);
  for (const absl::Status& left : {files_removed, holds_removed}) {
    if (left.ok()) continue;
    core.deps.logger.Warn("a released claim leaves a file behind",
                          {{"claim_uid", uid}, {"error", left.ToString()}});
  }
  core.deps.status->Withdraw(claim);
  return absl::OkStatus();
}

}  // namespace dra::claims
