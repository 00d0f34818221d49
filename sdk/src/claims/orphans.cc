#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "claims/claim_manager_impl.h"
#include "claims/claim_standing.h"
#include "claims/road_back.h"
#include "dra/base/status.h"
#include "dra/observe/metrics.h"

namespace dra::claims {
namespace {

using records::Phase;
using records::Record;

constexpr absl::Duration kClaimReadLimit = absl::Seconds(10);
constexpr absl::Duration kConfirmLimit = absl::Seconds(5);  // the claim's lock is held meanwhile

// True if another claim owns the device too (a share of it): then "busy" says nothing about this claim.
bool OthersOwn(const std::vector<loader::OtherClaim>& others, const std::string& device) {
  return std::any_of(others.begin(), others.end(), [&](const loader::OtherClaim& other) {
    return other.device == device && !other.admin_access;
  });
}

// What discover calls the pool "<node>[/<suffix>]".
absl::string_view PoolSuffix(absl::string_view pool) {
  const size_t slash = pool.find('/');
  return slash == absl::string_view::npos ? absl::string_view() : pool.substr(slash + 1);
}

// Why the kubelet may still need the claim; "" if it has forgotten it.
std::string NeededByKubelet(const Dependencies& deps, const std::string& claim_uid) {
  if (deps.kubelet == nullptr) return "what the kubelet still needs is not known";
  const auto claims = deps.kubelet->PreparedClaims();
  if (!claims.ok()) {
    return absl::StrCat("what the kubelet still needs is not known: ", claims.status().message());
  }
  const bool named =
      std::any_of(claims->begin(), claims->end(),
                  [&](const loader::ClaimIdentity& claim) { return claim.uid == claim_uid; });
  return named ? "the kubelet has not forgotten it" : "";
}

// Why a device of this boot may be in use; "" if none is. The hardware's own word counts; the kubelet's is asked where
// the hardware has none: a backend without the hook, a device with other owners, a record that names no device.
std::string InUse(ClaimCore& core, const Record& record, const std::vector<std::string>& keys,
                  const Call& call) {
  const auto others = core.OthersOn(record.claim.uid, keys);
  if (!others.ok()) return absl::StrCat("who else holds it: ", others.status().message());
  bool ask_kubelet = record.devices.empty();
  for (const records::RecordDevice& device : record.devices) {
    if (device.admin_access) continue;
    const std::string name = absl::StrCat("device ", device.pool, "/", device.device);
    if (OthersOwn(*others, device.device)) {
      ask_kubelet = true;
      continue;
    }
    const absl::StatusOr<loader::Busy> busy =
        core.deps.backend->IsBusy(PoolSuffix(device.pool), device.device, device.identity, call);
    if (absl::IsUnimplemented(busy.status())) {
      ask_kubelet = true;
    } else if (!busy.ok()) {
      return absl::StrCat("whether ", name, " is in use: ", busy.status().message());
    } else if (*busy == loader::Busy::kBusy) {
      return absl::StrCat(name, " is in use");
    } else if (*busy == loader::Busy::kUnknown) {
      return absl::StrCat("whether ", name, " is in use is unknown");
    }
  }
  return ask_kubelet ? NeededByKubelet(core.deps, record.claim.uid) : "";
}

}  // namespace

loader::ClaimIdentity ClaimManagerImpl::NameOf(const Record& record) {
  const loader::ClaimIdentity claim = ClaimCore::Identity(record);
  if (!claim.name.empty() || core_.deps.kubelet == nullptr) return claim;
  // A damaged record need not tell its name, and the kubelet may.
  const auto known = core_.deps.kubelet->PreparedClaims();
  if (!known.ok()) return claim;
  for (const loader::ClaimIdentity& candidate : *known) {
    if (candidate.uid == claim.uid) return candidate;
  }
  return claim;
}

bool ClaimManagerImpl::GoneLongEnough(const Record& record) {
  const MonotonicTime now = core_.deps.clock->Monotonic();
  const absl::MutexLock lock(&mutex_);
  const auto [entry, is_new] = evidence_.try_emplace(record.claim.uid);
  Evidence& evidence = entry->second;
  // Another phase or another time: an operation has run since, so what was seen before it counts no more.
  if (is_new || evidence.since != record.since || evidence.phase != record.phase) {
    evidence = {now, record.since, record.phase, false};
    return false;
  }
  return absl::FromChrono(now - evidence.first) >= core_.options.orphan_grace;
}

void ClaimManagerImpl::ForgetEvidence(const std::string& claim_uid) {
  const absl::MutexLock lock(&mutex_);
  evidence_.erase(claim_uid);
}

void ClaimManagerImpl::SayKept(const loader::ClaimIdentity& claim, const std::string& text) {
  {
    const absl::MutexLock lock(&mutex_);
    const auto entry = evidence_.find(claim.uid);
    if (entry == evidence_.end() || std::exchange(entry->second.reported, true)) return;
  }
  core_.deps.logger.Warn(text, {{"driver", core_.options.driver_name}, {"claim_uid", claim.uid}});
  core_.Warn(claim, "OrphanKept", "Unprepare", text);
}

void ClaimManagerImpl::SayNameless(const Record& record) {
  {
    const absl::MutexLock lock(&mutex_);
    if (!said_nameless_.insert(record.claim.uid).second) return;
  }
  core_.deps.logger.Warn("nothing tells the name of a claim whose record is damaged, so it is kept",
                         {{"driver", core_.options.driver_name},
                          {"claim_uid", record.claim.uid},
                          {"error", record.last_error}});
}

ClaimManagerImpl::Release ClaimManagerImpl::ReleaseOrphan(const Record& judged,
                                                          const loader::ClaimIdentity& claim,
                                                          const Call& call) {
  absl::StatusOr<records::OperationLock> lock = core_.locks.TryLockClaim(claim.uid);
  if (!lock.ok()) return {ReleaseResult::kLater, ""};  // an operation runs, and wins
  absl::StatusOr<std::optional<Record>> loaded = core_.LoadOrQuarantine(claim);
  if (!loaded.ok()) return {ReleaseResult::kKept, std::string(loaded.status().message())};
  if (!loaded->has_value()) return {ReleaseResult::kNotGone, ""};
  Record& record = **loaded;
  if (record.phase != judged.phase || record.since != judged.since) {
    return {ReleaseResult::kNotGone, ""};
  }
  // The last look is one under the lock: the claim may have been allocated again, or made again, since.
  const absl::StatusOr<Standing> standing = StandingOf(
      record,
      core_.deps.claims->GetClaim(claim.namespace_name, claim.name, call.AtMost(kConfirmLimit)),
      core_.options.driver_name);
  if (!standing.ok()) return {ReleaseResult::kLater, ""};
  if (*standing == Standing::kOurs) return {ReleaseResult::kNotGone, ""};
  const std::vector<std::string> keys = KeysOfRecord(core_, record);
  const absl::Status locked = lock->LockKeys(keys, call.AtMost(absl::ZeroDuration()));
  if (!locked.ok()) return {ReleaseResult::kLater, ""};
  if (core_.SameBoot(record)) {
    const std::string in_use = InUse(core_, record, keys, call);
    if (!in_use.empty()) return {ReleaseResult::kKept, in_use};
  }
  if (record.phase == Phase::kQuarantined) {
    const auto shared = core_.files.SharedOf(claim.uid);
    if (shared.ok()) record.shared_files = *shared;
  }
  RoadBack road;
  road.call_backend = BackendMayHaveBegun(record);
  const absl::Status undone = WalkBack(core_, std::move(record), keys, road, call.stop);
  lock = absl::CancelledError();  // free before those who wait are told
  core_.on_released();
  if (!undone.ok()) return {ReleaseResult::kKept, std::string(undone.message())};
  const std::string reason(StandingName(*standing));
  core_.deps.logger.Info("released a claim that is gone",
                         {{"driver", core_.options.driver_name},
                          {"claim", absl::StrCat(claim.namespace_name, "/", claim.name)},
                          {"claim_uid", claim.uid},
                          {"reason", reason}});
  if (core_.deps.metrics != nullptr) {
    core_.deps.metrics->Increment("dra_claims_released_total",
                                  {{"driver", core_.options.driver_name}, {"reason", reason}});
  }
  return {ReleaseResult::kReleased, ""};
}

void ClaimManagerImpl::LookAfter(const Record& record, const Call& call, OrphanReport* report) {
  const loader::ClaimIdentity claim = NameOf(record);
  if (claim.name.empty() || claim.namespace_name.empty()) {
    ++report->unknown;
    return SayNameless(record);
  }
  const absl::StatusOr<Standing> standing = StandingOf(
      record,
      core_.deps.claims->GetClaim(claim.namespace_name, claim.name, call.AtMost(kClaimReadLimit)),
      core_.options.driver_name);
  if (!standing.ok()) {
    ++report->unknown;  // no evidence for anything, and what was seen before stands
    return;
  }
  ++report->asked;
  if (*standing == Standing::kOurs) return ForgetEvidence(claim.uid);
  if (!GoneLongEnough(record)) {
    ++report->suspected;
    return;
  }
  const Release release = ReleaseOrphan(record, claim, call);
  switch (release.result) {
    case ReleaseResult::kReleased:
      ++report->released;
      return ForgetEvidence(claim.uid);
    case ReleaseResult::kNotGone:
      return ForgetEvidence(claim.uid);
    case ReleaseResult::kLater:
      ++report->suspected;
      return;
    case ReleaseResult::kKept:
      ++report->kept;
      return SayKept(claim,
                     absl::StrCat(ClaimText(claim), " is ", StandingName(*standing),
                                  " by the API server and keeps its devices: ", release.reason));
  }
}

OrphanReport ClaimManagerImpl::CollectOrphans(const Call& call) {
  OrphanReport report;
  const absl::StatusOr<std::vector<records::RecordStore::Item>> items = core_.store.List();
  if (!items.ok()) {
    core_.deps.logger.Error(
        "the records cannot be read, no claim is looked after",
        {{"driver", core_.options.driver_name}, {"error", items.status().ToString()}});
    return report;
  }
  const absl::Duration gap = absl::Seconds(1) / core_.options.orphan_gets_per_second;
  std::set<std::string> recorded;
  for (const records::RecordStore::Item& item : *items) {
    recorded.insert(item.claim_uid);
    if (!item.record.ok()) {
      EnterRecord(item);  // moves a damaged one aside
      ++report.unknown;
      continue;
    }
    // The API server serves thousands of nodes: a pass is spread, also over its first claims.
    if (!core_.deps.clock->Sleep(gap, call.stop) || !call.Check("collect orphans").ok()) {
      return report;
    }
    LookAfter(*item.record, call, &report);
  }
  {
    const absl::MutexLock lock(&mutex_);
    std::erase_if(evidence_, [&](const auto& entry) { return !recorded.contains(entry.first); });
  }
  if (core_.deps.metrics != nullptr) {
    core_.deps.metrics->Set("dra_orphaned_claims", report.kept,
                            {{"driver", core_.options.driver_name}});
  }
  return report;
}

}  // namespace dra::claims
