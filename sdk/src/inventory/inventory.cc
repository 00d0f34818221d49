#include "dra/inventory/inventory.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "inventory/accept.h"
#include "inventory/inventory_state.h"

namespace dra::inventory {
namespace {

constexpr char kRenamed[] = "a name must follow the identity of the hardware, never its position";

void SetFlag(Entry* entry, bool* flag, bool value) {
  entry->dirty |= *flag != value;
  *flag = value;
}

bool SamePools(const std::vector<Pool>& a, const std::vector<Pool>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Pool& x, const Pool& y) {
    // Devices that say the same are the same object: see Publish.
    return x.name == y.name && x.devices == y.devices && x.counter_sets == y.counter_sets &&
           x.slice_fields == y.slice_fields;
  });
}

}  // namespace

// Holds keep names: hardware that claims the name of a held device, or a new name for a held device, is refused.
// Returns the identities that were refused: that hardware is there.
std::set<std::string> Inventory::State::RefuseSlides(AcceptedDiscovery* accepted) {
  std::set<std::string> refused;
  std::map<std::string, std::vector<const Entry*>> by_identity;
  for (const auto& [key, entry] : entries) by_identity[entry.identity].push_back(&entry);
  std::map<std::string, int> reported;
  for (const auto& [key, candidate] : accepted->devices) ++reported[candidate.identity];

  for (auto it = accepted->devices.begin(); it != accepted->devices.end();) {
    const auto& [key, candidate] = *it;
    const auto named = entries.find(key);
    const bool slides = named != entries.end() && named->second.held &&
                        named->second.identity != candidate.identity;
    if (slides) {
      accepted->findings.push_back(
          {key.first, key.second, "identity", candidate.identity,
           absl::StrCat("the name belongs to device \"", named->second.identity,
                        "\", which a claim holds; ", kRenamed),
           "new device refused until the claim ends"});
      refused.insert(candidate.identity);
      it = accepted->devices.erase(it);
      continue;
    }
    // Only a device that is alone with its identity can be called renamed: partitions come and go under one.
    const auto found = by_identity.find(candidate.identity);
    const Entry* old =
        found != by_identity.end() && found->second.size() == 1 && reported[candidate.identity] == 1
            ? found->second.front()
            : nullptr;
    if (old == nullptr || DeviceKey(old->pool, old->name) == key) {
      ++it;
      continue;
    }
    const bool keep_old = old->held;
    accepted->findings.push_back(
        {key.first, key.second, "name", candidate.identity,
         absl::StrCat("was published as \"", old->name, "\" before; ", kRenamed),
         keep_old ? absl::StrCat("kept as \"", old->name, "\" until the claim ends")
                  : "published under the new name"});
    if (keep_old) refused.insert(candidate.identity);
    it = keep_old ? accepted->devices.erase(it) : std::next(it);
  }
  return refused;
}

void Inventory::State::TakeDevice(const DeviceKey& key, Candidate candidate) {
  Entry& entry = entries[key];
  bool other_effect = false;
  if (entry.identity != candidate.identity) {
    // New, or other hardware in the same place: what was known of the old says nothing about it.
    const bool held = entry.held;
    const bool replaced = !entry.identity.empty();
    entry = Entry();
    entry.pool = key.first;
    entry.name = key.second;
    entry.held = held;
    entry.health_since = clock->Now();
    if (replaced) health.erase(key);
    const auto note = restored.find({candidate.identity, key});
    if (note != restored.end()) {
      other_effect = entry.fault.Restore(note->second, options.taint_effects, Now());
    }
  }
  entry.identity = std::move(candidate.identity);
  if (other_effect) NoteFault(key, entry);
  if (entry.exclusion_keys != candidate.exclusion_keys || entry.base != candidate.device) {
    entry.exclusion_keys = std::move(candidate.exclusion_keys);
    entry.base = std::move(candidate.device);
    entry.dirty = true;
  }
  SetFlag(&entry, &entry.gone, false);
}

void Inventory::State::Merge(AcceptedDiscovery accepted, bool complete,
                             const std::set<DeviceKey>& held) {
  for (auto& [key, entry] : entries) SetFlag(&entry, &entry.held, held.contains(key));
  const std::set<std::string> refused_identities = RefuseSlides(&accepted);

  const auto unreadable = [&accepted](const Entry& entry) {
    return accepted.error_subjects.contains(entry.name) ||
           accepted.error_subjects.contains(entry.identity);
  };
  const auto stays = [&](const Entry& entry) {
    return entry.held || !complete || unreadable(entry) ||
           refused_identities.contains(entry.identity);
  };

  // Counter sets that devices which stay unreported lean on stay with them.
  for (const auto& [key, entry] : entries) {
    if (accepted.devices.contains(key) || !stays(entry)) continue;
    for (const std::string& name : ConsumedCounterSets(entry.base)) {
      const auto& sets = counter_sets[key.first];
      if (const auto set = sets.find(name); set != sets.end())
        accepted.counter_sets[key.first].insert(*set);
    }
  }
  if (!complete) {
    for (const auto& [pool, sets] : counter_sets)
      accepted.counter_sets[pool].insert(sets.begin(), sets.end());
    for (const auto& [pool, values] : slice_fields) accepted.slice_fields.emplace(pool, values);
  }
  DropWithoutCounters(&accepted);

  for (auto it = entries.begin(); it != entries.end();) {
    Entry& entry = it->second;
    if (accepted.devices.contains(it->first)) {
      ++it;
    } else if (stays(entry)) {
      // Absent from a complete look, and not for want of reading it.
      if (complete && !unreadable(entry))
        SetFlag(&entry, &entry.gone, !refused_identities.contains(entry.identity));
      ++it;
    } else {
      it = entries.erase(it);
    }
  }
  for (auto& [key, candidate] : accepted.devices) TakeDevice(key, std::move(candidate));
  for (auto& [key, entry] : entries) SetFlag(&entry, &entry.held, held.contains(key));
  counter_sets = std::move(accepted.counter_sets);
  slice_fields = std::move(accepted.slice_fields);
  discovery_findings = std::move(accepted.findings);
}

std::shared_ptr<const Snapshot> Inventory::State::Rebuild() {
  Snapshot next;
  next.known = known;
  next.last_error = last_error;
  next.last_success = last_success;
  next.lost = lost;
  next.lost_since = lost_since;
  next.findings = discovery_findings;
  if (!health_error.ok()) {
    next.findings.push_back({"", "", "health", "",
                             absl::StrCat("could not be read: ", health_error.message()),
                             "health of all devices unknown"});
  }
  std::map<std::string, Pool> pools;
  // A pool without devices is a statement too: there are none.
  if (known) pools[options.node_name];
  const absl::Time now = clock->Now();
  for (auto& [key, entry] : entries) {
    if (entry.dirty) Publish(options, fields, drain, now, &entry);
    if (entry.fault.needs_evidence()) next.findings.push_back(MissingEvidence(entry));
    if (entry.reported.unknown_severity != 0) next.findings.push_back(UnknownSeverity(entry));
    next.findings.insert(next.findings.end(), entry.findings.begin(), entry.findings.end());
    pools[key.first].devices.push_back(entry.published);
  }
  for (const auto& [name, sets] : counter_sets) {
    for (const auto& [set_name, set] : sets) pools[name].counter_sets.push_back(set);
  }
  for (const auto& [name, values] : slice_fields) {
    if (const auto pool = pools.find(name); pool != pools.end()) pool->second.slice_fields = values;
  }
  for (auto& [name, pool] : pools) {
    pool.name = name;
    next.pools.push_back(std::move(pool));
  }
  const Snapshot& before = *snapshot;
  const bool same = before.known == next.known && before.findings == next.findings &&
                    before.last_error == next.last_error && before.lost == next.lost &&
                    SamePools(before.pools, next.pools);
  next.version = before.version + (same ? 0 : 1);
  LogChanges(before, next);
  snapshot = std::make_shared<const Snapshot>(std::move(next));
  return snapshot;
}

void Inventory::State::LogChanges(const Snapshot& before, const Snapshot& now) const {
  if (before.last_error != now.last_error) {
    if (now.last_error.ok()) {
      logger.Info("discovery works again");
    } else {
      logger.Error("discovery failed, the last inventory stays",
                   {{"error", now.last_error.ToString()}});
    }
  }
  for (const Finding& finding : now.findings) {
    if (std::find(before.findings.begin(), before.findings.end(), finding) != before.findings.end())
      continue;
    logger.Warn(absl::StrCat(finding.field.empty() ? "device" : finding.field, " \"", finding.value,
                             "\": ", finding.problem, ": ", finding.action),
                {{"pool", finding.pool}, {"device", finding.device}});
  }
}

const Device* Snapshot::FindDevice(absl::string_view pool, absl::string_view name) const {
  const auto found_pool = std::lower_bound(
      pools.begin(), pools.end(), pool,
      [](const Pool& a, absl::string_view b) { return absl::string_view(a.name) < b; });
  if (found_pool == pools.end() || found_pool->name != pool) return nullptr;
  const auto& devices = found_pool->devices;
  const auto found =
      std::lower_bound(devices.begin(), devices.end(), name,
                       [](const std::shared_ptr<const Device>& a, absl::string_view b) {
                         return absl::string_view(a->name) < b;
                       });
  return found == devices.end() || (*found)->name != name ? nullptr : found->get();
}

Inventory::Inventory(Options options, Clock* clock, Logger logger)
    : state_(std::make_shared<State>(std::move(options), clock, std::move(logger))) {}

std::shared_ptr<const Snapshot> Inventory::Update(
    const loader::DiscoverResult& result, const loader::ServerFields& fields,
    const std::vector<std::pair<std::string, std::string>>& held) {
  AcceptedDiscovery accepted = Accept(state_->options, result);
  absl::MutexLock lock(&state_->mutex);
  if (state_->fields != fields) {
    state_->fields = fields;
    for (auto& [key, entry] : state_->entries) entry.dirty = true;
  }
  state_->last_error = absl::OkStatus();
  state_->last_success = state_->clock->Now();
  state_->known = true;
  state_->Merge(std::move(accepted), result.complete, {held.begin(), held.end()});
  state_->restored.clear();
  state_->ReportNewDevices();
  state_->ShowHealth();
  return state_->Rebuild();
}

std::shared_ptr<const Snapshot> Inventory::UpdateFailed(const absl::Status& error) {
  absl::MutexLock lock(&state_->mutex);
  state_->last_error = error;
  return state_->Rebuild();
}

std::shared_ptr<const Snapshot> Inventory::SetDrain(bool on, absl::Time since) {
  absl::MutexLock lock(&state_->mutex);
  const Drain drain = {on, on ? since : absl::Time()};
  if (state_->drain != drain) {
    state_->drain = drain;
    for (auto& [key, entry] : state_->entries) entry.dirty = true;
  }
  return state_->Rebuild();
}

std::shared_ptr<const Snapshot> Inventory::Get() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->snapshot;
}

}  // namespace dra::inventory
