#include "claims/prepare_again.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "claims/prepare_steps.h"
#include "claims/road_back.h"
#include "dra/base/status.h"

namespace dra::claims {
namespace {

using records::Phase;
using records::Record;

constexpr absl::Duration kLockedReadLimit = absl::Seconds(5);  // the claim's lock is held meanwhile

absl::StatusOr<Record> Prepared(ClaimCore& core, RunningHook& hook,
                                const std::vector<std::string>& keys,
                                const loader::Manifest& manifest, const Call& call) {
  Record record = hook.draft();
  loader::PrepareArgs args = PrepareArguments(record);
  DRA_ASSIGN_OR_RETURN(args.others, core.OthersOn(args.claim.uid, keys));
  absl::StatusOr<loader::PrepareResult> result =
      core.deps.backend->Prepare(args, call);  // ends at the hook's own limit
  if (!result.ok()) return result.status();
  if (result->devices.size() != record.devices.size()) {
    return absl::InternalError(absl::StrCat("the backend answered ", result->devices.size(), " of ",
                                            record.devices.size(), " devices"));
  }
  record = hook.draft();
  record.phase = Phase::kPrepared;
  record.since = core.deps.clock->Now();
  record.last_error.clear();
  record.backend = absl::StrCat(manifest.name, " ", manifest.version);
  record.claim_edits = std::move(result->claim_edits);
  if (result->has_undo) record.undo = std::move(result->undo);
  record.has_undo = result->has_undo || !record.undo.empty();
  for (size_t i = 0; i < record.devices.size(); ++i) {
    record.devices[i].edits = std::move(result->devices[i].edits);
    MergeStatus(record.devices[i].status, result->devices[i].status, record.since);
  }
  return record;
}

// Keeps the record as one that is still to be prepared, with the reason.
void Keep(ClaimCore& core, Record record, const absl::Status& failed) {
  const std::string text = absl::StrCat(kPrepareAgain, ", which failed: ", failed.message());
  if (record.last_error == text) return;
  record.last_error = text;
  core.deps.logger.Warn("a claim could not be prepared again, which is tried until it succeeds",
                        {{"claim_uid", record.claim.uid}, {"error", failed.ToString()}});
  core.Warn(ClaimCore::Identity(record), "PrepareAgainFailed", "Prepare", text);
  // Undo data of this attempt is on the disk already; only the reason is new.
  const absl::Status saved = core.store.Save(record, Durability::kVolatile);
  if (saved.ok()) core.table.Put(record);
}

}  // namespace

bool WantsPrepareAgain(const ClaimCore& core, const Record& record) {
  return record.phase == Phase::kPreparing && core.SameBoot(record) &&
         absl::StartsWith(record.last_error, kPrepareAgain);
}

bool PrepareClaimAgain(ClaimCore& core, const std::string& claim_uid, const Call& call) {
  absl::StatusOr<records::OperationLock> lock =
      core.locks.LockClaim(claim_uid, call.AtMost(kLockPatience));
  if (!lock.ok()) return false;  // an operation runs: what it leads to is seen next time
  absl::StatusOr<std::optional<Record>> loaded = core.LoadOrQuarantine({"", "", claim_uid});
  if (!loaded.ok()) return false;
  // Under the lock, so that a claim that was unprepared meanwhile stays so (PRP-03).
  if (!loaded->has_value() || !WantsPrepareAgain(core, **loaded)) return true;
  Record record = *std::move(*loaded);
  const loader::ClaimIdentity identity = ClaimCore::Identity(record);
  const absl::StatusOr<resource::ResourceClaim> claim = core.deps.claims->GetClaim(
      identity.namespace_name, identity.name, call.AtMost(kLockedReadLimit));
  // Whether a claim is gone is decided elsewhere, and not by one look.
  if (!claim.ok() || !CheckClaim(identity, *claim).ok()) return false;
  if (resource::AllocationDigest(*claim, core.options.driver_name) != record.allocation_digest) {
    return true;  // the kubelet's next prepare undoes this allocation
  }
  const std::vector<std::string> keys = KeysOfRecord(core, record);
  if (!lock->LockKeys(keys, call.AtMost(kLockPatience)).ok()) return false;
  const auto manifest = core.deps.backend->GetManifest();
  if (!manifest.ok()) return false;

  const auto hook = std::make_shared<RunningHook>(&core.store, core.deps.clock, record);
  absl::StatusOr<Record> prepared;
  {
    const auto registration = core.hooks.Add(hook, claim_uid);
    prepared = Prepared(core, *hook, keys, **manifest, call);
  }
  if (!prepared.ok()) {
    Keep(core, hook->draft(), prepared.status());
    return false;
  }
  const absl::Status saved = core.store.Save(*prepared);
  if (!saved.ok()) {
    Keep(core, hook->draft(), Annotate(saved, "write the record"));
    return false;
  }
  core.table.Put(*prepared);
  const absl::Status written = core.EnsureCdi(*prepared, /*may_match=*/false).status();
  if (!written.ok()) {
    // The record is right; the file is tried again whenever files are restored, and by every prepare.
    core.deps.logger.Error("the CDI file of a claim that was prepared again could not be written",
                           {{"claim_uid", claim_uid}, {"error", written.ToString()}});
  }
  core.SubmitStatus(*prepared);
  core.deps.logger.Info("claim prepared again, as the backend asked",
                        {{"driver", core.options.driver_name},
                         {"claim", absl::StrCat(identity.namespace_name, "/", identity.name)},
                         {"claim_uid", claim_uid}});
  return true;
}

}  // namespace dra::claims
