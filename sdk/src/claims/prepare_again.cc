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

// `record`: as it was before. The hook ends at its own limit.
absl::StatusOr<loader::PrepareResult> AskBackend(ClaimCore& core, const Record& record,
                                                 const std::vector<std::string>& keys,
                                                 const Call& call) {
  loader::PrepareArgs args = PrepareArguments(record);
  DRA_ASSIGN_OR_RETURN(args.others, core.OthersOn(args.claim.uid, keys));
  DRA_ASSIGN_OR_RETURN(loader::PrepareResult result, core.deps.backend->Prepare(args, call));
  DRA_RETURN_IF_ERROR(CheckAnswered(args, result));
  return result;
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

  const std::string backend = BackendText(**manifest);
  const auto hook = std::make_shared<RunningHook>(&core.store, core.deps.clock, record, backend);
  absl::StatusOr<loader::PrepareResult> result;
  {
    const auto registration = core.hooks.Add(hook, claim_uid);
    result = AskBackend(core, record, keys, call);
  }
  Record draft = hook->TakeDraft();
  if (!result.ok()) {
    Keep(core, std::move(draft), result.status());
    return false;
  }
  const Record prepared =
      PreparedRecord(draft, *std::move(result), backend, core.deps.clock->Now());
  const absl::Status saved = core.store.Save(prepared);
  if (!saved.ok()) {
    Keep(core, std::move(draft), Annotate(saved, "write the record"));
    return false;
  }
  core.table.Put(prepared);
  const absl::Status written = core.EnsureCdi(prepared, /*may_match=*/false).status();
  if (!written.ok()) {
    // The record is right; the file is tried again whenever files are restored, and by every prepare.
    core.deps.logger.Error("the CDI file of a claim that was prepared again could not be written",
                           {{"claim_uid", claim_uid}, {"error", written.ToString()}});
  }
  core.SubmitStatus(prepared);
  core.deps.logger.Info("claim prepared again, as the backend asked",
                        {{"driver", core.options.driver_name},
                         {"claim", absl::StrCat(identity.namespace_name, "/", identity.name)},
                         {"claim_uid", claim_uid}});
  return true;
}

}  // namespace dra::claims
