#include "claims/claim_table.h"

#include <set>
#include <utility>

#include "dra/observe/metrics.h"

namespace dra::claims {

ClaimTable::ClaimTable(std::string driver_name, std::string boot_id, observe::Metrics* metrics)
    : driver_name_(std::move(driver_name)), boot_id_(std::move(boot_id)), metrics_(metrics) {
  const absl::MutexLock lock(&mutex_);
  for (int phase = 0; phase < records::kPhases; ++phase) {
    Count(static_cast<records::Phase>(phase), 0);
  }
}

void ClaimTable::Count(records::Phase phase, int change) {
  int& count = counts_[static_cast<size_t>(phase)];
  count += change;
  if (metrics_ == nullptr) return;
  metrics_->Set("dra_claims", count,
                {{"driver", driver_name_}, {"phase", std::string(records::PhaseName(phase))}});
}

void ClaimTable::PutLocked(const records::Record& record) {
  const auto [found, is_new] = entries_.try_emplace(record.claim.uid);
  Entry& entry = found->second;
  if (!is_new) Count(entry.phase, -1);
  Count(record.phase, +1);
  entry.phase = record.phase;
  if (entry.digest != record.allocation_digest) entry.cdi_ids.reset();
  entry.digest = record.allocation_digest;
  ClaimSummary& summary = entry.summary;
  summary.claim = {record.claim.namespace_name, record.claim.name, record.claim.uid};
  summary.phase = std::string(records::PhaseName(record.phase));
  summary.same_boot = record.phase == records::Phase::kQuarantined || record.boot_id == boot_id_;
  summary.devices.clear();
  entry.identities.clear();
  for (const records::RecordDevice& device : record.devices) {
    summary.devices.push_back({driver_name_, device.pool, device.device, device.share_id});
    if (!device.admin_access && !device.identity.empty()) {
      entry.identities.push_back(device.identity);
    }
  }
  summary.last_error = record.last_error;
  summary.lost = record.lost;
  summary.since = record.since;
}

void ClaimTable::Put(const records::Record& record) {
  const absl::MutexLock lock(&mutex_);
  PutLocked(record);
  entries_.find(record.claim.uid)->second.unsaved.reset();
}

void ClaimTable::PutUnsaved(const records::Record& record) {
  const absl::MutexLock lock(&mutex_);
  PutLocked(record);
  entries_.find(record.claim.uid)->second.unsaved = record;
}

void ClaimTable::Erase(absl::string_view claim_uid) {
  const absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(std::string(claim_uid));
  if (found == entries_.end()) return;
  Count(found->second.phase, -1);
  entries_.erase(found);
}

std::optional<records::Record> ClaimTable::Unsaved(absl::string_view claim_uid) const {
  const absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(std::string(claim_uid));
  return found == entries_.end() ? std::nullopt : found->second.unsaved;
}

void ClaimTable::SetCdiIds(absl::string_view claim_uid, CdiIds ids) {
  const absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(std::string(claim_uid));
  if (found != entries_.end()) found->second.cdi_ids = std::move(ids);
}

std::optional<ClaimTable::CdiIds> ClaimTable::GetCdiIds(absl::string_view claim_uid,
                                                        absl::string_view digest) const {
  const absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(std::string(claim_uid));
  if (found == entries_.end() || digest != found->second.digest) return std::nullopt;
  return found->second.cdi_ids;
}

std::vector<std::string> ClaimTable::HeldIdentities() const {
  std::set<std::string> identities;
  const absl::MutexLock lock(&mutex_);
  for (const auto& [uid, entry] : entries_) {
    if (entry.summary.same_boot) {
      identities.insert(entry.identities.begin(), entry.identities.end());
    }
  }
  return {identities.begin(), identities.end()};
}

std::vector<ClaimSummary> ClaimTable::Claims() const {
  const absl::MutexLock lock(&mutex_);
  std::vector<ClaimSummary> claims;
  claims.reserve(entries_.size());
  for (const auto& [uid, entry] : entries_) claims.push_back(entry.summary);
  return claims;
}

}  // namespace dra::claims
