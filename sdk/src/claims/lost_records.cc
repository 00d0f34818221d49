#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "claims/claim_manager_impl.h"
#include "claims/prepare_steps.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"

namespace dra::claims {
namespace {

using records::Record;

constexpr absl::Duration kReadLimit = absl::Seconds(10);
// The backend may have to discover first. Without its word a device is its own exclusion key.
constexpr absl::Duration kCatalogLimit = absl::Seconds(10);

}  // namespace

// A CDI file of ours whose claim has no record: the record was lost (in every operation the record is written before
// the file and goes after it). The file alone does not say whether a pod still needs it.
void ClaimManagerImpl::DecideLostRecords(const Call& call) {
  const absl::StatusOr<std::vector<std::string>> files = core_.deps.cdi->ListClaims();
  if (!files.ok()) {
    core_.deps.logger.Error(
        "the CDI directory cannot be read, nothing in it is decided",
        {{"driver", core_.options.driver_name}, {"error", files.status().ToString()}});
    return;
  }
  std::optional<absl::StatusOr<std::vector<loader::ClaimIdentity>>> kubelet;
  for (const std::string& uid : *files) {
    if (!call.Check("restore").ok()) return;
    if (!IsSafeFileId(uid) || core_.table.Unsaved(uid).has_value()) continue;
    const absl::StatusOr<bool> recorded = core_.store.Exists(uid);
    if (!recorded.ok() || *recorded) continue;
    if (!kubelet.has_value()) {
      kubelet = absl::UnavailableError("the driver is not shown the kubelet's state");
      if (core_.deps.kubelet != nullptr) kubelet = core_.deps.kubelet->PreparedClaims();
    }
    if (!kubelet->ok()) {
      SayLost(uid, kubelet->status().message());
      continue;
    }
    const auto known =
        std::find_if((*kubelet)->begin(), (*kubelet)->end(),
                     [&](const loader::ClaimIdentity& claim) { return claim.uid == uid; });
    if (known != (*kubelet)->end()) {
      RecoverRecord(*known, call);
      continue;
    }
    records::OperationLock lock;
    if (!LockForgotten(uid, &lock)) continue;
    const absl::Status removed = core_.deps.cdi->Remove(uid);
    if (removed.ok()) {
      core_.deps.logger.Info(
          "removed the CDI file of a claim that has no record and that the kubelet has forgotten",
          {{"driver", core_.options.driver_name}, {"claim_uid", uid}});
    } else {
      SayLost(uid, removed.message());
    }
  }
}

void ClaimManagerImpl::SayLost(const std::string& claim_uid, absl::string_view why) {
  {
    const absl::MutexLock lock(&mutex_);
    if (!said_lost_.insert(claim_uid).second) return;
  }
  core_.deps.logger.Warn(
      "a claim has a CDI file but no record; the file is kept and looked at again",
      {{"driver", core_.options.driver_name},
       {"claim_uid", claim_uid},
       {"error", std::string(why)}});
}

absl::StatusOr<Record> ClaimManagerImpl::RecordFromApi(const loader::ClaimIdentity& claim,
                                                       const Call& call) {
  DRA_ASSIGN_OR_RETURN(
      const resource::ResourceClaim object,
      core_.deps.claims->GetClaim(claim.namespace_name, claim.name, call.AtMost(kReadLimit)));
  DRA_RETURN_IF_ERROR(CheckClaim(claim, object));
  Record record;
  record.phase = records::Phase::kDirty;
  record.boot_id = core_.options.boot_id;
  record.claim = {claim.namespace_name, claim.name, claim.uid};
  record.allocation_digest = resource::AllocationDigest(object, core_.options.driver_name);
  record.since = core_.deps.clock->Now();
  record.last_error = "the record was lost";
  for (const resource::AllocationResult& result : object.results) {
    if (result.id.driver != core_.options.driver_name) continue;
    records::RecordDevice device;
    device.result = result.raw;
    device.pool = result.id.pool;
    device.device = result.id.device;
    device.request = result.request;
    device.share_id = result.id.share_id;
    device.admin_access = result.admin_access;
    const absl::StatusOr<DeviceFacts> facts =
        core_.deps.devices->FindDevice(device.pool, device.device, call.AtMost(kCatalogLimit));
    if (facts.ok()) {
      device.identity = facts->identity;
      for (const loader::ExclusionKey& key : facts->exclusion_keys) {
        device.exclusion_keys.push_back({key.key, key.shape});
      }
      if (const Json* counters = Find(facts->device, "consumesCounters"); counters != nullptr) {
        device.consumes_counters = *counters;
      }
    }
    record.devices.push_back(std::move(device));
  }
  if (record.devices.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(ClaimText(claim), " has no device of this driver any more"));
  }
  return record;
}

void ClaimManagerImpl::RecoverRecord(const loader::ClaimIdentity& claim, const Call& call) {
  const absl::StatusOr<Record> record = RecordFromApi(claim, call);
  if (!record.ok()) return SayLost(claim.uid, record.status().message());
  records::OperationLock lock;
  if (!LockForgotten(claim.uid, &lock)) return;
  const std::vector<records::Hold> holds = records::HoldsOf(*record);
  const std::vector<std::string> keys = records::KeysOf(holds);
  absl::Status status = lock.LockKeys(keys, call.AtMost(kLockPatience));
  if (status.ok()) status = core_.ledger.Write(holds);
  if (status.ok()) {
    status = core_.store.Save(*record);
    if (!status.ok()) (void)core_.ledger.Remove(claim.uid, keys);
  }
  if (!status.ok()) return SayLost(claim.uid, status.message());
  core_.table.Put(*record);
  const std::string text =
      absl::StrCat("the record of ", ClaimText(claim),
                   " was lost; its devices are held by the API server's word until it is "
                   "unprepared");
  core_.deps.logger.Error(text, {{"driver", core_.options.driver_name}, {"claim_uid", claim.uid}});
  core_.Warn(claim, "RecordLost", "Restore", text);
}

}  // namespace dra::claims
