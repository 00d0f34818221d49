#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "claims/claim_manager_impl.h"
#include "claims/prepare_again.h"
#include "claims/road_back.h"
#include "dra/base/status.h"

namespace dra::claims {
namespace {

using records::Phase;
using records::Record;

// A prepare or unprepare that runs may take 40 s before it lets go.
constexpr absl::Duration kLockLimit = absl::Seconds(60);
// All of it: operations wait behind it, and the kubelet gives up after 45 s and comes back after a minute.
constexpr absl::Duration kWholeLimit = absl::Minutes(2);

// Codes with which a hook may end before the backend has heard of the claim. A backend that has heard of it keeps the
// claim's hardware even when it fails (abi.h).
bool MayNotHaveHeard(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsFailedPrecondition(status) ||
         absl::IsCancelled(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status);
}

// One claim's turn, with the reconcile byte held exclusively.
class ClaimTurn {
 public:
  ClaimTurn(ClaimCore& core, Record record)
      : core_(core), record_(std::move(record)), claim_(ClaimCore::Identity(record_)) {}

  // Asks the backend and does what it says. Errors: the hook's; then nothing has changed.
  absl::Status Run(const Call& call) {
    loader::ReconcileRecord args;
    args.same_boot = core_.SameBoot(record_);
    args.record.claim = claim_;
    args.record.devices = ClaimCore::HookDevices(record_);
    const bool quarantined = record_.phase == Phase::kQuarantined;
    if (!quarantined) args.record.undo = record_.undo;
    DRA_ASSIGN_OR_RETURN(args.record.others,
                         core_.OthersOn(claim_.uid, KeysOfRecord(core_, record_)));
    if (quarantined) return core_.deps.backend->ReconcileRecordHook(args, call).status();

    const std::string before = records::EncodeRecord(record_);
    const auto hook = std::make_shared<RunningHook>(&core_.store, core_.deps.clock, record_);
    absl::StatusOr<loader::ReconcileResult> result;
    {
      const auto registration = core_.hooks.Add(hook, claim_.uid);
      result = core_.deps.backend->ReconcileRecordHook(args, call);
    }
    record_ = hook->draft();
    absl::Status verdict = result.status();
    if (result.ok()) verdict = Follow(*std::move(result));
    if (records::EncodeRecord(record_) != before) Save();
    return verdict;
  }

  bool to_be_prepared_again() const { return to_be_prepared_again_; }

 private:
  absl::Status Follow(loader::ReconcileResult result) {
    // What is prepared is true only within this boot: everything else is done anew at the next prepare anyway.
    const bool in_use = record_.phase == Phase::kPrepared && core_.SameBoot(record_);
    switch (result.verdict) {
      case loader::ReconcileVerdict::kTrue:
        return absl::OkStatus();
      case loader::ReconcileVerdict::kTrueWithEdits:
        return in_use ? TakeEdits(std::move(result)) : absl::OkStatus();
      case loader::ReconcileVerdict::kRedo:
        if (in_use) PrepareLater();
        return absl::OkStatus();
      case loader::ReconcileVerdict::kLost:
        if (record_.phase == Phase::kPrepared || record_.phase == Phase::kPreparing) Lose();
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  absl::Status TakeEdits(loader::ReconcileResult result) {
    if (result.device_edits.size() != record_.devices.size()) {
      return absl::InternalError(absl::StrCat("the backend gave edits for ",
                                              result.device_edits.size(), " of ",
                                              record_.devices.size(), " devices"));
    }
    Record renewed = record_;
    bool changed = renewed.claim_edits != result.claim_edits;
    for (size_t i = 0; i < renewed.devices.size(); ++i) {
      changed |= renewed.devices[i].edits != result.device_edits[i];
      renewed.devices[i].edits = std::move(result.device_edits[i]);
    }
    // A backend may always answer with what it would give now.
    if (!changed) return absl::OkStatus();
    renewed.claim_edits = std::move(result.claim_edits);
    // The file first: it is what finds out that CDI does not allow these edits. Should the process end before the
    // record is written, the backend is asked again.
    DRA_RETURN_IF_ERROR(core_.EnsureCdi(renewed, /*may_match=*/false).status());
    record_ = std::move(renewed);
    core_.deps.logger.Info(
        "the CDI file of a prepared claim is another one now, as the backend asked",
        {{"driver", core_.options.driver_name}, {"claim_uid", claim_.uid}});
    return absl::OkStatus();
  }

  void PrepareLater() {
    record_.phase = Phase::kPreparing;
    record_.since = core_.deps.clock->Now();
    // The backend has begun, also where it saves nothing: an unprepare has to reach it.
    record_.has_undo = true;
    record_.last_error = std::string(kPrepareAgain);
    to_be_prepared_again_ = true;
    // A container that starts meanwhile fails and is tried again, which is better than hardware that is not set up.
    RemoveCdi();
  }

  void Lose() {
    record_.phase = Phase::kDirty;
    record_.lost = true;
    record_.since = core_.deps.clock->Now();
    record_.last_error = "a device of the claim is lost and cannot be had again, says the backend";
    RemoveCdi();
    core_.deps.logger.Error("a device of a prepared claim is lost",
                            {{"driver", core_.options.driver_name}, {"claim_uid", claim_.uid}});
    core_.Warn(claim_, "DeviceLost", "Reconcile",
               absl::StrCat(record_.last_error, "; delete the pod to have it scheduled anew"));
  }

  void RemoveCdi() {
    const absl::Status removed = core_.deps.cdi->Remove(claim_.uid);
    if (removed.ok()) return;
    core_.deps.logger.Error("the CDI file of a claim that is not in order stays",
                            {{"claim_uid", claim_.uid}, {"error", removed.ToString()}});
  }

  void Save() {
    const absl::Status saved = core_.store.Save(record_);
    if (saved.ok()) return core_.table.Put(record_);
    core_.deps.logger.Error("what reconcile found is known to this process only",
                            {{"claim_uid", claim_.uid}, {"error", saved.ToString()}});
    core_.table.PutUnsaved(record_);
  }

  ClaimCore& core_;
  Record record_;
  const loader::ClaimIdentity claim_;
  bool to_be_prepared_again_ = false;
};

}  // namespace

absl::Status ClaimManagerImpl::Reconcile(const Call& call) {
  const std::string context =
      absl::StrCat("reconcile the claims of driver ", core_.options.driver_name);
  absl::StatusOr<records::OperationLock> lock = core_.locks.LockReconcile(call.AtMost(kLockLimit));
  if (!lock.ok()) return Annotate(lock.status(), context);
  const Call whole = call.AtMost(kWholeLimit);

  const absl::StatusOr<std::set<std::string>> claims = RecordedClaims();
  if (!claims.ok()) return Annotate(claims.status(), context);

  const absl::Status begun = core_.deps.backend->ReconcileBegin(whole);
  if (absl::IsUnimplemented(begun)) return absl::OkStatus();
  if (!begun.ok()) return Annotate(begun, absl::StrCat(context, ": begin"));
  absl::Status
      untold;  // why the backend does not know of every claim: then nothing may be destroyed
  for (const std::string& uid : *claims) {
    absl::Status told = whole.Check(context);
    if (!told.ok()) {
      untold = told;
      break;
    }
    absl::StatusOr<std::optional<Record>> record = core_.LoadOrQuarantine({"", "", uid});
    if (record.ok() && !record->has_value()) continue;
    if (!record.ok()) {
      core_.deps.logger.Error("a record cannot be read, its hardware is left alone",
                              {{"claim_uid", uid}, {"error", record.status().ToString()}});
      untold.Update(Annotate(record.status(), absl::StrCat("claim uid ", uid)));
      continue;
    }
    const loader::ClaimIdentity claim = ClaimCore::Identity(**record);
    if ((*record)->phase == Phase::kQuarantined && (*record)->devices.empty()) {
      untold.Update(absl::DataLossError(absl::StrCat(
          "the record of ", ClaimText(claim), " is damaged, and nothing tells its devices")));
    }
    ClaimTurn turn(core_, *std::move(*record));
    told = turn.Run(whole);
    if (turn.to_be_prepared_again()) {
      const absl::MutexLock guard(&mutex_);
      prepare_again_.insert(uid);
    }
    if (told.ok()) continue;
    if (MayNotHaveHeard(told)) untold.Update(Annotate(told, ClaimText(claim)));
    core_.deps.logger.Error("the backend could not reconcile a claim, its record stays as it is",
                            {{"claim_uid", uid}, {"error", told.ToString()}});
    core_.Warn(claim, "ReconcileFailed", "Reconcile", told.message());
  }
  untold.Update(CheckNoRecordIsLost(*claims));
  if (!untold.ok()) {
    return Annotate(untold, absl::StrCat(context,
                                         ": leftovers on the hardware stay, because the "
                                         "backend does not know of every claim"));
  }
  return Annotate(core_.deps.backend->ReconcileEnd(whole), absl::StrCat(context, ": end"));
}

absl::Status ClaimManagerImpl::CheckNoRecordIsLost(const std::set<std::string>& recorded) {
  DRA_ASSIGN_OR_RETURN(const std::vector<std::string> files, core_.deps.cdi->ListClaims());
  for (const std::string& uid : files) {
    if (recorded.contains(uid)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "claim uid ", uid, " has a CDI file and no record, and a pod may run on its devices"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::set<std::string>> ClaimManagerImpl::RecordedClaims() {
  DRA_ASSIGN_OR_RETURN(const std::vector<records::RecordStore::Item> items, core_.store.List());
  std::set<std::string> claims;
  for (const records::RecordStore::Item& item : items) claims.insert(item.claim_uid);
  for (const ClaimSummary& claim : core_.table.Claims()) {
    if (core_.table.Unsaved(claim.claim.uid).has_value()) claims.insert(claim.claim.uid);
  }
  return claims;
}

int ClaimManagerImpl::PrepareAgain(const Call& call) {
  std::set<std::string> claims;
  {
    const absl::MutexLock lock(&mutex_);
    claims = prepare_again_;
  }
  for (const std::string& uid : claims) {
    if (!call.Check("prepare again").ok() || !PrepareClaimAgain(core_, uid, call)) continue;
    const absl::MutexLock lock(&mutex_);
    prepare_again_.erase(uid);
  }
  const absl::MutexLock lock(&mutex_);
  return static_cast<int>(prepare_again_.size());
}

}  // namespace dra::claims
