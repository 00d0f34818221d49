#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "claims/claim_manager_impl.h"
#include "dra/base/status.h"

namespace dra::claims {
namespace {

// How long a host function waits for a lock: it runs on a thread of the backend.
constexpr absl::Duration kHostLock = absl::Seconds(5);

absl::Status NoHook(absl::string_view function, absl::string_view claim_uid) {
  return absl::FailedPreconditionError(
      absl::StrCat(function, ": no hook of claim uid \"", claim_uid, "\" is running"));
}

}  // namespace

absl::Status ClaimManagerImpl::SaveUndo(absl::string_view claim_uid, absl::string_view undo) {
  const std::shared_ptr<RunningHook> hook = core_.hooks.Find(claim_uid);
  if (hook == nullptr) return NoHook("save_undo", claim_uid);
  return Annotate(hook->SaveUndo(undo), "save_undo");
}

absl::Status ClaimManagerImpl::UpdateDevice(absl::string_view claim_uid, absl::string_view pool,
                                            absl::string_view device, absl::string_view share_id,
                                            const Json& status) {
  const std::shared_ptr<RunningHook> hook = core_.hooks.Find(claim_uid);
  // The operation itself writes and submits what was reported while its hook ran.
  if (hook != nullptr) return hook->UpdateDevice(pool, device, share_id, status);

  absl::StatusOr<records::OperationLock> lock =
      core_.locks.LockClaim(claim_uid, Call::WithTimeout(kHostLock));
  if (!lock.ok()) return Annotate(lock.status(), "update_device");
  absl::StatusOr<records::Record> record = core_.store.Load(claim_uid);
  if (!record.ok()) return Annotate(record.status(), "update_device");
  RunningHook merge(&core_.store, core_.deps.clock, *std::move(record));
  DRA_RETURN_IF_ERROR(merge.UpdateDevice(pool, device, share_id, status));
  const records::Record merged = merge.draft();
  if (merged.phase == records::Phase::kQuarantined) {
    return absl::FailedPreconditionError("update_device: the claim's record is quarantined");
  }
  DRA_RETURN_IF_ERROR(Annotate(core_.store.Save(merged), "update_device"));
  // Only a prepared claim has a status to show: what is on its way out is withdrawn.
  if (merged.phase == records::Phase::kPrepared) core_.SubmitStatus(merged);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ClaimManagerImpl::NoteGet(absl::string_view identity,
                                                      absl::string_view key) {
  return core_.notes.Get(records::NoteOwner::kBackend, identity, key);
}

absl::Status ClaimManagerImpl::NotePut(absl::string_view identity, absl::string_view key,
                                       absl::string_view value) {
  return core_.notes.Put(records::NoteOwner::kBackend, identity, key, value);
}

absl::StatusOr<std::vector<loader::OtherClaim>> ClaimManagerImpl::Held(absl::string_view claim_uid,
                                                                       absl::string_view pool,
                                                                       absl::string_view device) {
  std::set<std::string> keys;
  // The device's own keys, as this claim's record or any holder of the device names them. No look into the inventory:
  // that could call the backend out of its own hook.
  const std::shared_ptr<RunningHook> hook = core_.hooks.Find(claim_uid);
  if (hook != nullptr) {
    records::Record one = hook->draft();
    std::erase_if(one.devices, [&](const records::RecordDevice& candidate) {
      return pool != candidate.pool || device != candidate.device;
    });
    for (const records::Hold& hold : records::HoldsOf(one)) keys.insert(hold.key);
  }
  if (keys.empty()) {
    DRA_ASSIGN_OR_RETURN(const std::vector<records::Hold> all, core_.ledger.All());
    for (const records::Hold& hold : all) {
      for (const records::HeldDevice& held : hold.devices) {
        if (pool == held.pool && device == held.device) keys.insert(hold.key);
      }
    }
  }
  // A counter set is shared by devices that have nothing to do with each other.
  std::erase_if(keys, [](const std::string& key) { return absl::StartsWith(key, "counters/"); });
  return core_.OthersOn(claim_uid, {keys.begin(), keys.end()});
}

absl::StatusOr<std::string> ClaimManagerImpl::ClaimDirectory(absl::string_view claim_uid) {
  if (core_.hooks.Find(claim_uid) == nullptr) return NoHook("claim_dir", claim_uid);
  return core_.files.ClaimDirectory(claim_uid);
}

absl::StatusOr<std::string> ClaimManagerImpl::SharedFile(absl::string_view claim_uid,
                                                         absl::string_view bytes) {
  const std::shared_ptr<RunningHook> hook = core_.hooks.Find(claim_uid);
  if (hook == nullptr) return NoHook("shared_file", claim_uid);
  return core_.files.AddShared(
      claim_uid, bytes, [&](const std::string& name) { hook->AddSharedFile(name); },
      Call::WithTimeout(kHostLock));
}

std::vector<std::pair<std::string, std::string>> ClaimManagerImpl::HeldDevices() const {
  // The directory decides, for another instance may hold devices too.
  const absl::StatusOr<std::vector<records::Hold>> all = core_.ledger.All();
  if (!all.ok()) {
    core_.deps.logger.Error(
        "held devices could not be read, the last known ones stand",
        {{"driver", core_.options.driver_name}, {"error", all.status().ToString()}});
    const absl::MutexLock lock(&mutex_);
    return last_held_;
  }
  std::set<std::pair<std::string, std::string>> held;
  for (const records::Hold& hold : *all) {
    for (const records::HeldDevice& device : hold.devices) {
      if (!device.admin_access && !device.device.empty()) held.emplace(device.pool, device.device);
    }
  }
  const absl::MutexLock lock(&mutex_);
  last_held_.assign(held.begin(), held.end());
  return last_held_;
}

}  // namespace dra::claims
