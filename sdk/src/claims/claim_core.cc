#include "claims/claim_core.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "dra/observe/events.h"
#include "dra/observe/metrics.h"
#include "dra/resource/semver.h"

namespace dra::claims {
using records::Record;

ClaimCore::ClaimCore(Options options_in, Dependencies dependencies)
    : options(std::move(options_in)),
      deps(std::move(dependencies)),
      store(deps.fs, Path("claims")),
      locks(Path("serialize.lock")),
      ledger(deps.fs, Path("held"), options.boot_id,
             [this](absl::string_view uid) -> absl::StatusOr<bool> {
               if (table.Unsaved(uid).has_value()) return true;
               DRA_ASSIGN_OR_RETURN(const bool recorded, store.Exists(uid));
               if (recorded) return true;
               DRA_ASSIGN_OR_RETURN(const bool free, locks.IsFree(uid));
               return !free;
             }),
      notes(deps.fs, Path("notes")),
      files(deps.fs, &locks, options.data_directory),
      table(options.driver_name, options.boot_id, deps.metrics) {}

std::string ClaimCore::Path(absl::string_view name) const {
  return JoinPath(options.data_directory, name);
}

absl::StatusOr<std::optional<Record>> ClaimCore::LoadOrQuarantine(
    const loader::ClaimIdentity& claim) {
  std::optional<Record> unsaved = table.Unsaved(claim.uid);
  if (unsaved.has_value()) return unsaved;
  absl::StatusOr<Record> record = store.Load(claim.uid);
  if (absl::IsNotFound(record.status())) return std::optional<Record>();
  if (absl::IsDataLoss(record.status())) {
    DRA_RETURN_IF_ERROR(Quarantine(claim, record.status()));
    record = store.Load(claim.uid);
    // Of two names the damaged one counted, and the other is whole: an undo that began before a power cut.
    if (absl::IsDataLoss(record.status())) {
      DRA_RETURN_IF_ERROR(Quarantine(claim, record.status()));
      record = store.Load(claim.uid);
    }
  }
  if (!record.ok()) return record.status();
  if (record->phase != records::Phase::kQuarantined) {
    return std::optional<Record>(*std::move(record));
  }
  if (record->claim.name.empty()) {
    record->claim = {claim.namespace_name, claim.name, claim.uid};
  }
  record->boot_id = options.boot_id;
  DRA_RETURN_IF_ERROR(FillQuarantined(&*record));
  table.Put(*record);
  return std::optional<Record>(*std::move(record));
}

absl::Status ClaimCore::Quarantine(const loader::ClaimIdentity& claim, const absl::Status& damage) {
  absl::StatusOr<records::RecordStore::Kept> kept = store.Quarantine(claim.uid);
  if (!kept.ok()) return Annotate(kept.status(), "move the damaged record aside");
  loader::ClaimIdentity whose = claim;
  if (whose.name.empty()) whose = {kept->claim.namespace_name, kept->claim.name, claim.uid};
  const std::string text =
      absl::StrCat("the record of this claim was damaged and is kept as ", kept->path,
                   "; its devices stay held until it is unprepared: ", damage.message());
  deps.logger.Error(text, {{"driver", options.driver_name},
                           {"claim", absl::StrCat(whose.namespace_name, "/", whose.name)},
                           {"claim_uid", whose.uid}});
  if (deps.metrics != nullptr) {
    deps.metrics->Increment("dra_records_quarantined_total", {{"driver", options.driver_name}});
  }
  Warn(whose, "RecordQuarantined", "Prepare", text);
  return absl::OkStatus();
}

absl::Status ClaimCore::FillQuarantined(Record* record) {
  const std::string& uid = record->claim.uid;
  std::set<std::tuple<std::string, std::string, std::string>> seen;
  const auto add = [&](const std::string& pool, const std::string& name,
                       const std::optional<std::string>& share_id, bool admin_access) {
    if (!seen.insert({pool, name, share_id.value_or("")}).second) return;
    records::RecordDevice device;
    device.result = {{"driver", options.driver_name}, {"device", name}};
    if (!pool.empty()) device.result["pool"] = pool;
    if (share_id.has_value()) device.result["shareID"] = *share_id;
    if (admin_access) device.result["adminAccess"] = true;
    device.pool = pool;
    device.device = name;
    device.share_id = share_id;
    device.admin_access = admin_access;
    record->devices.push_back(std::move(device));
  };
  // A hold of an earlier boot holds nothing.
  DRA_ASSIGN_OR_RETURN(const std::vector<records::Hold> all, ledger.All());
  for (const records::Hold& hold : all) {
    if (hold.claim.uid != uid) continue;
    for (const records::HeldDevice& held : hold.devices) {
      add(held.pool, held.device, held.share_id, held.admin_access);
    }
  }
  if (!record->devices.empty()) return absl::OkStatus();

  // The holds are lost as well. Of which boot the CDI file is nobody can tell: held, then, until the claim goes.
  const absl::StatusOr<std::vector<std::pair<std::string, std::string>>> named =
      deps.cdi->Devices(uid);
  if (absl::IsNotFound(named.status())) return absl::OkStatus();
  if (absl::IsDataLoss(named.status())) {
    deps.logger.Error("neither record nor CDI file of a claim tells its devices",
                      {{"claim_uid", uid}, {"error", named.status().ToString()}});
    return absl::OkStatus();
  }
  if (!named.ok()) return Annotate(named.status(), "devices of a damaged record");
  for (const auto& [name, share_id] : *named) {
    records::HeldDevice held;
    held.device = name;
    if (!share_id.empty()) held.share_id = share_id;
    add("", name, held.share_id, false);
    const std::string key = records::AnyPoolKey(name);
    DRA_ASSIGN_OR_RETURN(const records::OperationLock lock,
                         locks.LockKey(key, Call::WithTimeout(kLockPatience)));
    DRA_RETURN_IF_ERROR(ledger.Write({{key, record->claim, {held}}}));
  }
  return absl::OkStatus();
}

std::vector<CdiDevice> ClaimCore::CdiDevices(const Record& record) {
  std::vector<CdiDevice> devices;
  devices.reserve(record.devices.size());
  for (const records::RecordDevice& device : record.devices) {
    devices.push_back({device.device, device.share_id.value_or(""), device.edits});
  }
  return devices;
}

bool ClaimCore::NothingToInject(const Record& record) {
  return NoEdits(record.claim_edits) &&
         std::all_of(record.devices.begin(), record.devices.end(),
                     [](const records::RecordDevice& device) { return NoEdits(device.edits); });
}

absl::StatusOr<ClaimTable::CdiIds> ClaimCore::EnsureCdi(const Record& record, bool may_match) {
  if (NothingToInject(record)) {
    // A file of an earlier boot may be there, with something in it.
    if (!may_match) DRA_RETURN_IF_ERROR(deps.cdi->Remove(record.claim.uid));
    return ClaimTable::CdiIds(record.devices.size());
  }
  const std::vector<CdiDevice> devices = CdiDevices(record);
  if (may_match) {
    std::optional<ClaimTable::CdiIds> known =
        table.GetCdiIds(record.claim.uid, record.allocation_digest);
    if (known.has_value()) {
      const absl::StatusOr<bool> matches =
          deps.cdi->Matches(record.claim.uid, devices, record.claim_edits);
      if (matches.ok() && *matches) return *std::move(known);
    }
  }
  DRA_ASSIGN_OR_RETURN(ClaimTable::CdiIds ids,
                       deps.cdi->Write(record.claim.uid, devices, record.claim_edits));
  if (ids.size() != record.devices.size()) {
    return absl::InternalError(absl::StrCat("CDI file of claim uid ", record.claim.uid,
                                            " gave ids for ", ids.size(), " of ",
                                            record.devices.size(), " devices"));
  }
  table.SetCdiIds(record.claim.uid, ids);
  return ids;
}

std::vector<Json> ClaimCore::StatusEntries(const Record& record) const {
  std::vector<Json> entries;
  for (const records::RecordDevice& device : record.devices) {
    if (!device.status.is_object() || device.status.empty()) continue;
    Json entry = device.status;
    entry["driver"] = options.driver_name;
    entry["pool"] = device.pool;
    entry["device"] = device.device;
    if (device.share_id.has_value()) entry["shareID"] = *device.share_id;
    entries.push_back(std::move(entry));
  }
  return entries;
}

void ClaimCore::SubmitStatus(const Record& record) {
  std::vector<Json> entries = StatusEntries(record);
  if (!entries.empty()) deps.status->Submit(Identity(record), std::move(entries));
}

loader::ClaimIdentity ClaimCore::Identity(const Record& record) {
  return {record.claim.namespace_name, record.claim.name, record.claim.uid};
}

std::vector<loader::PrepareDevice> ClaimCore::HookDevices(const Record& record) {
  std::vector<loader::PrepareDevice> devices;
  devices.reserve(record.devices.size());
  for (const records::RecordDevice& device : record.devices) {
    devices.push_back({device.result, device.identity,
                       device.configs.is_array() ? device.configs : Json::array()});
  }
  return devices;
}

std::vector<loader::OtherClaim> ClaimCore::OtherClaims(const std::vector<records::Hold>& holds) {
  std::vector<loader::OtherClaim> others;
  std::set<std::tuple<std::string, std::string, std::string, std::string>> seen;
  for (const records::Hold& hold : holds) {
    for (const records::HeldDevice& held : hold.devices) {
      if (!seen.insert({hold.claim.uid, held.pool, held.device, held.share_id.value_or("")})
               .second) {
        continue;
      }
      others.push_back({hold.claim.uid, held.device, held.share_id, held.admin_access});
    }
  }
  return others;
}

absl::StatusOr<std::vector<loader::OtherClaim>> ClaimCore::OthersOn(
    absl::string_view claim_uid, const std::vector<std::string>& keys) {
  DRA_ASSIGN_OR_RETURN(const std::vector<records::Hold> holds, ledger.Others(claim_uid, keys));
  return OtherClaims(holds);
}

absl::Duration ClaimCore::HookLimit(absl::string_view hook, absl::Duration fallback) const {
  const auto manifest = deps.backend->GetManifest();
  return manifest.ok() ? HookLimitOf(**manifest, hook, fallback) : fallback;
}

void ClaimCore::WarnOfOlderBackend(const Record& record, const loader::Manifest& manifest,
                                   absl::string_view action) {
  if (!record.has_undo || !IsNewerThan(record.backend, manifest)) return;
  const std::string text =
      absl::StrCat("the undo data of this claim was written by backend \"", record.backend,
                   "\", and the older \"", manifest.name, " ", manifest.version,
                   "\" is to undo it; if it fails, install the newer version again");
  deps.logger.Warn(text, {{"driver", options.driver_name}, {"claim_uid", record.claim.uid}});
  Warn(Identity(record), "BackendOlderThanUndo", action, text);
}

void ClaimCore::Warn(const loader::ClaimIdentity& claim, absl::string_view reason,
                     absl::string_view action, absl::string_view note) {
  if (deps.events == nullptr) return;
  deps.events->Record(observe::EventType::kWarning,
                      {"resource.k8s.io/v1", "ResourceClaim", claim.namespace_name,
                       claim.name.empty() ? claim.uid : claim.name, claim.uid},
                      reason, action, note);
}

absl::Duration HookLimitOf(const loader::Manifest& manifest, absl::string_view hook,
                           absl::Duration fallback) {
  const auto limit = manifest.hook_limits.find(std::string(hook));
  return limit == manifest.hook_limits.end() ? fallback : limit->second;
}

bool IsNewerThan(absl::string_view recorded, const loader::Manifest& manifest) {
  const size_t space = recorded.rfind(' ');
  if (space == absl::string_view::npos || recorded.substr(0, space) != manifest.name) return false;
  const auto parse = [](absl::string_view text) {
    return resource::SemVer::Parse(resource::RepairVersion(text).value_or(std::string(text)));
  };
  const absl::StatusOr<resource::SemVer> wrote = parse(recorded.substr(space + 1));
  const absl::StatusOr<resource::SemVer> now = parse(manifest.version);
  return wrote.ok() && now.ok() && resource::Compare(*wrote, *now) > 0;
}

std::string ClaimText(const loader::ClaimIdentity& claim) {
  return absl::StrCat("claim ", claim.namespace_name, "/", claim.name, " (uid ", claim.uid, ")");
}

bool NoEdits(const Json& edits) { return edits.is_null() || (edits.is_object() && edits.empty()); }

bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsAborted(status) || absl::IsResourceExhausted(status);
}

absl::Duration Backoff(int failures) {
  constexpr absl::Duration kFirst = absl::Milliseconds(100);
  constexpr absl::Duration kLongest = absl::Seconds(2);
  return std::min(kLongest, kFirst * (1 << std::min(failures, 5)));
}

}  // namespace dra::claims
