// What the inventory does with health: reports, faults, notes, evidence.

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "inventory/inventory_state.h"

namespace dra::inventory {
namespace {

Fault NamedFault(const Entry& entry) {
  Fault fault = entry.fault.fault();
  fault.identity = entry.identity;
  fault.pool = entry.pool;
  fault.device = entry.name;
  return fault;
}

}  // namespace

Finding MissingEvidence(const Entry& entry) {
  const Fault& fault = entry.fault.fault();
  return {entry.pool,
          entry.name,
          "health",
          fault.fault_class,
          absl::StrCat("is reported healthy again, but this fault ends only with evidence \"",
                       fault.clears_with, "\""),
          "device stays tainted until dra-driver clear-fault gives it"};
}

Finding UnknownSeverity(const Entry& entry) {
  return {entry.pool,
          entry.name,
          "severity",
          absl::StrCat(entry.reported.unknown_severity),
          "no such severity is known to this dra-driver",
          "counts as unset"};
}

void Inventory::State::ReportNewDevices() {
  // A device that is new here may have been named by the last report already.
  const Moment now = Now();
  for (auto& [key, entry] : entries) {
    if (std::exchange(entry.known, true)) continue;
    const auto reported = health.find(key);
    if (reported == health.end()) continue;
    entry.reported = reported->second;
    if (entry.fault.Report(entry.reported, options.taint_effects, now)) NoteFault(key, entry);
  }
}

// Gives every device its part of the last health report. Only for a report that has just come: what was said before is
// no sign that a fault has gone, or come again.
void Inventory::State::ReportHealth() {
  const Moment now = Now();
  for (auto& [key, entry] : entries) {
    const auto reported = health.find(key);
    entry.reported = reported == health.end() ? loader::DeviceHealth() : reported->second;
    if (entry.fault.Report(entry.reported, options.taint_effects, now)) NoteFault(key, entry);
  }
  ShowHealth();
}

void Inventory::State::ShowHealth() {
  const absl::Time now = clock->Now();
  for (auto& [key, entry] : entries) {
    const auto missed = lost.find(key);
    entry.lost = missed == lost.end() ? "" : missed->second;
    if (MergeHealth(&entry, now)) LogHealth(entry);
  }
}

void Inventory::State::NoteFault(const DeviceKey& key, const Entry& entry) {
  changed[{entry.identity, key}] = NamedFault(entry);
}

void Inventory::State::LogHealth(const Entry& entry) const {
  const Logger::Fields fields_of_device = {{"pool", entry.pool}, {"device", entry.name}};
  switch (entry.health.state) {
    case loader::HealthState::kHealthy:
      logger.Info("device is healthy", fields_of_device);
      break;
    case loader::HealthState::kUnhealthy:
      logger.Warn(absl::StrCat("device is unhealthy: ", entry.health.fault_class, " ",
                               entry.health.message),
                  {{"pool", entry.pool},
                   {"device", entry.name},
                   {"severity", SeverityName(entry.health.severity)}});
      break;
    case loader::HealthState::kUnknown:
      logger.Debug("health of device is unknown", fields_of_device);
      break;
  }
}

std::shared_ptr<const Snapshot> Inventory::UpdateHealth(
    const std::vector<loader::DeviceHealth>& health) {
  absl::MutexLock lock(&state_->mutex);
  state_->health.clear();
  for (const loader::DeviceHealth& device : health) {
    state_->health[{PoolName(state_->options, device.pool), device.device}] = device;
  }
  state_->health_error = absl::OkStatus();
  state_->ReportHealth();
  return state_->Rebuild();
}

std::shared_ptr<const Snapshot> Inventory::UpdateHealthFailed(const absl::Status& error) {
  absl::MutexLock lock(&state_->mutex);
  state_->health.clear();
  state_->health_error = error;
  state_->ReportHealth();
  return state_->Rebuild();
}

std::shared_ptr<const Snapshot> Inventory::SetLost(
    std::map<std::pair<std::string, std::string>, std::string> lost) {
  absl::MutexLock lock(&state_->mutex);
  if (state_->lost == lost) return state_->snapshot;
  state_->lost = std::move(lost);
  state_->lost_since = state_->clock->Now();
  state_->ShowHealth();
  return state_->Rebuild();
}

void Inventory::Restore(const std::vector<Fault>& faults) {
  absl::MutexLock lock(&state_->mutex);
  for (const Fault& fault : faults) {
    state_->restored[{fault.identity, {fault.pool, fault.device}}] = fault;
  }
}

std::vector<Fault> Inventory::TakeFaultChanges() {
  absl::MutexLock lock(&state_->mutex);
  std::vector<Fault> faults;
  faults.reserve(state_->changed.size());
  for (auto& [key, fault] : state_->changed) faults.push_back(std::move(fault));
  state_->changed.clear();
  return faults;
}

std::vector<Fault> Inventory::Faults() const {
  absl::MutexLock lock(&state_->mutex);
  std::vector<Fault> faults;
  for (const auto& [key, entry] : state_->entries) {
    if (!entry.fault.sick()) continue;
    faults.push_back(NamedFault(entry));
  }
  return faults;
}

absl::StatusOr<Fault> Inventory::ClearFault(absl::string_view pool, absl::string_view device,
                                            const Evidence& evidence) {
  absl::MutexLock lock(&state_->mutex);
  const std::string name = absl::StrCat("device ", pool, "/", device);
  if (!state_->known) {
    return absl::UnavailableError(
        absl::StrCat(name, ": the backend has not discovered its devices yet"));
  }
  const auto found = state_->entries.find({std::string(pool), std::string(device)});
  if (found == state_->entries.end()) {
    return absl::NotFoundError(absl::StrCat(name, " is not on this node"));
  }
  Entry& entry = found->second;
  if (!entry.fault.sick()) {
    // A request that is repeated because nobody knows that it was done, as after a crash: it was.
    const Fault over = NamedFault(entry);
    const bool repeated = !evidence.text.empty() && over.evidence.text == evidence.text &&
                          over.evidence.by == evidence.by;
    if (repeated) return over;
    return absl::FailedPreconditionError(absl::StrCat(name, " has no fault that could be cleared"));
  }
  const Moment now = state_->Now();
  // Such a request waited in its file over a crash, and the device fell sick again meanwhile. A fault that began in the
  // future shows only that the clock was set back.
  const absl::Time since = entry.fault.fault().since;
  if (IsOlderThan(evidence, entry.fault.fault()) && since <= now.wall) {
    return absl::FailedPreconditionError(absl::StrCat(
        name, ": the evidence is of ", absl::FormatTime(evidence.at, absl::UTCTimeZone()),
        ", before its fault \"", entry.fault.fault().fault_class, "\" began at ",
        absl::FormatTime(since, absl::UTCTimeZone()), ": look at the device again"));
  }
  entry.fault.Clear(evidence, now);
  state_->NoteFault(found->first, entry);
  state_->ShowHealth();
  state_->Rebuild();
  return NamedFault(entry);
}

}  // namespace dra::inventory
