#include "driver/health_notes.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/json.h"
#include "dra/base/status.h"
#include "nlohmann/json.hpp"

namespace dra::driver {
namespace {

using inventory::Fault;

constexpr char kNoteKey[] = "health";
constexpr char kUnreadable[] = "unreadable-note";
// A note must stay below the 64 KiB of records::Notes: texts are cut, shorter where one identity stands for many
// devices, and of more than so many devices the faults that are over go first.
constexpr size_t kMaxName = 63;
constexpr size_t kMaxText = 200;
constexpr size_t kMaxTextOfMany = 16;
constexpr size_t kMany = 16;
constexpr size_t kMaxFaults = 100;

std::string TimeText(absl::Time time) {
  return time == absl::InfinitePast()
             ? ""
             : absl::FormatTime(absl::RFC3339_full, time, absl::UTCTimeZone());
}

absl::Time TimeOf(const Json& json, absl::string_view key) {
  absl::Time time;
  std::string why;
  return absl::ParseTime(absl::RFC3339_full, StringOr(json, key), &time, &why)
             ? time
             : absl::InfinitePast();
}

Fault UnreadableFault(const std::string& identity, absl::string_view problem, absl::Time now) {
  Fault fault;
  fault.identity = identity;
  fault.sick = true;
  fault.fault_class = kUnreadable;
  fault.message = std::string(problem);
  fault.remedy = "look at the device, then give evidence with dra-driver clear-fault";
  fault.clears_with = "operator";
  fault.since = now;
  return fault;
}

}  // namespace

std::string EncodeFaults(const std::vector<Fault>& faults) {
  const size_t text = faults.size() > kMany ? kMaxTextOfMany : kMaxText;
  Json devices = Json::array();
  for (const Fault& fault : faults) {
    Json device = {{"pool", fault.pool},
                   {"device", fault.device},
                   {"state", fault.sick ? "unhealthy" : "healthy"},
                   {"faultClass", fault.fault_class.substr(0, kMaxName)},
                   {"message", fault.message.substr(0, text)},
                   {"remedy", fault.remedy.substr(0, text)},
                   {"clearsWith", fault.clears_with.substr(0, kMaxName)},
                   {"since", TimeText(fault.since)},
                   {"flaps", fault.flaps}};
    if (fault.severity != loader::FaultSeverity::kUnset)
      device["severity"] = inventory::SeverityName(fault.severity);
    if (fault.effect != inventory::TaintEffect::kNoSchedule)
      device["taintEffect"] = inventory::TaintEffectName(fault.effect);
    if (fault.effect_since != fault.since) device["taintSince"] = TimeText(fault.effect_since);
    if (!fault.evidence.text.empty()) {
      device["evidence"] = {{"text", fault.evidence.text.substr(0, text)},
                            {"by", fault.evidence.by.substr(0, std::min(text, kMaxName))},
                            {"at", TimeText(fault.evidence.at)}};
    }
    devices.push_back(std::move(device));
  }
  return DumpJson({{"format", 1}, {"devices", std::move(devices)}});
}

absl::StatusOr<std::vector<Fault>> DecodeFaults(absl::string_view text,
                                                absl::string_view identity) {
  const absl::StatusOr<Json> json = ParseJsonObject(text, "health note");
  if (!json.ok()) return absl::DataLossError(std::string(json.status().message()));
  const Json* devices = Find(*json, "devices");
  if (IntOr(*json, "format") != 1 || devices == nullptr || !devices->is_array()) {
    return absl::DataLossError("health note: is not of format 1");
  }
  std::vector<Fault> faults;
  for (const Json& device : *devices) {
    const std::string state = StringOr(device, "state");
    if (state != "healthy" && state != "unhealthy") {
      return absl::DataLossError(absl::StrCat("health note: state \"", state, "\" is unknown"));
    }
    Fault fault;
    fault.identity = std::string(identity);
    fault.pool = StringOr(device, "pool");
    fault.device = StringOr(device, "device");
    fault.sick = state == "unhealthy";
    fault.fault_class = StringOr(device, "faultClass");
    fault.message = StringOr(device, "message");
    fault.remedy = StringOr(device, "remedy");
    fault.clears_with = StringOr(device, "clearsWith");
    fault.since = TimeOf(device, "since");
    fault.flaps = static_cast<int>(std::clamp<int64_t>(IntOr(device, "flaps"), 0, 1000000));
    // An earlier release wrote none of these: no severity, and the taint that every fault had.
    fault.severity = inventory::SeverityOf(StringOr(device, "severity"));
    fault.effect = inventory::TaintEffectOf(StringOr(device, "taintEffect"))
                       .value_or(inventory::TaintEffect::kNoSchedule);
    fault.effect_since = TimeOf(device, "taintSince");
    if (fault.effect_since == absl::InfinitePast()) fault.effect_since = fault.since;
    if (const Json* evidence = Find(device, "evidence"); evidence != nullptr) {
      fault.evidence = {StringOr(*evidence, "text"), StringOr(*evidence, "by"),
                        TimeOf(*evidence, "at")};
    }
    faults.push_back(std::move(fault));
  }
  return faults;
}

HealthNotes::HealthNotes(Options options, FileSystem* fs, inventory::Inventory* inventory,
                         Clock* clock, observe::Metrics* metrics, Logger logger)
    : options_(std::move(options)),
      notes_(fs, options_.directory),
      inventory_(inventory),
      clock_(clock),
      metrics_(metrics),
      logger_(std::move(logger)) {}

absl::StatusOr<std::vector<Fault>> HealthNotes::Read(const std::string& identity) const {
  const absl::StatusOr<std::string> text =
      notes_.Get(records::NoteOwner::kHost, identity, kNoteKey);
  if (absl::IsNotFound(text.status())) return std::vector<Fault>();
  DRA_RETURN_IF_ERROR(text.status());
  return DecodeFaults(*text, identity);
}

absl::Status HealthNotes::Load(const loader::DiscoverResult& found) {
  const std::shared_ptr<const inventory::Snapshot> known = inventory_->Get();
  std::map<std::string, std::vector<Key>> devices;
  std::set<std::string> fresh;
  for (const loader::DiscoverItem& item : found.items) {
    if (!item.device.has_value() || item.device->identity.empty()) continue;
    const std::string pool = item.device->pool.empty()
                                 ? options_.node_name
                                 : absl::StrCat(options_.node_name, "/", item.device->pool);
    const std::string name = StringOr(item.device->device, "name");
    const inventory::Device* seen = known->FindDevice(pool, name);
    devices[item.device->identity].push_back({pool, name});
    if (seen == nullptr || seen->identity != item.device->identity)
      fresh.insert(item.device->identity);
  }
  std::vector<Fault> faults;
  for (const std::string& identity : fresh) {
    absl::StatusOr<std::vector<Fault>> noted = Read(identity);
    if (absl::IsDataLoss(noted.status())) {
      for (const Key& device : devices[identity]) {
        Fault fault = UnreadableFault(identity, noted.status().message(), clock_->Now());
        std::tie(fault.pool, fault.device) = device;
        faults.push_back(std::move(fault));
      }
      logger_.Error("health note is damaged, the device counts as faulty",
                    {{"identity", identity}, {"error", noted.status().ToString()}});
      continue;
    }
    DRA_RETURN_IF_ERROR(Annotate(noted.status(), "read the health note of a device"));
    // A name may change, a fault follows the hardware: where the identity is one device only, that one has it.
    const bool alone = devices[identity].size() == 1;
    if (alone && !noted->empty()) {
      Fault fault =
          *std::max_element(noted->begin(), noted->end(), [](const Fault& a, const Fault& b) {
            return std::pair(a.sick, a.since) < std::pair(b.sick, b.since);
          });
      std::tie(fault.pool, fault.device) = devices[identity][0];
      faults.push_back(std::move(fault));
    } else {
      faults.insert(faults.end(), noted->begin(), noted->end());
    }
  }
  inventory_->Restore(faults);
  return absl::OkStatus();
}

void HealthNotes::TakeForeignEvidence() {
  for (const Fault& fault : inventory_->Faults()) {
    if (fault.clears_with.empty()) continue;
    const absl::StatusOr<std::vector<Fault>> noted = Read(fault.identity);
    if (!noted.ok()) continue;  // its own evidence counts when it can be read
    for (const Fault& other : *noted) {
      const bool same = other.pool == fault.pool && other.device == fault.device;
      if (!same || other.evidence.text.empty() || inventory::IsOlderThan(other.evidence, fault) ||
          other.evidence.at <= fault.evidence.at) {
        continue;
      }
      (void)inventory_->ClearFault(fault.pool, fault.device, other.evidence);
    }
  }
}

absl::Status HealthNotes::Write(const std::string& identity,
                                const std::map<Key, Fault>& changed) const {
  std::map<Key, Fault> all;
  // What cannot be read any more is replaced: this is the newer word.
  const absl::StatusOr<std::vector<Fault>> noted = Read(identity);
  if (!noted.ok() && !absl::IsDataLoss(noted.status())) return noted.status();
  if (noted.ok()) {
    for (const Fault& fault : *noted) all[{fault.pool, fault.device}] = fault;
  }
  for (const auto& [key, fault] : changed) all[key] = fault;
  std::vector<Fault> faults;
  for (const bool sick : {true, false}) {
    for (auto& [key, fault] : all) {
      if (fault.sick == sick && faults.size() < kMaxFaults) faults.push_back(fault);
    }
  }
  return notes_.Put(records::NoteOwner::kHost, identity, kNoteKey, EncodeFaults(faults));
}

absl::Status HealthNotes::Save() {
  std::map<std::string, std::map<Key, Fault>> work;
  {
    const absl::MutexLock lock(&mutex_);
    // One writer at a time, since a note is read before it is written; no lock is held meanwhile.
    mutex_.Await(absl::Condition(
        +[](bool* writing) { return !*writing; }, &writing_));
    for (Fault& fault : inventory_->TakeFaultChanges()) {
      const Key key = {fault.pool, fault.device};
      const std::string identity = fault.identity;
      pending_[identity][key] = std::move(fault);
    }
    if (pending_.empty()) return absl::OkStatus();
    work = std::exchange(pending_, {});
    writing_ = true;
  }
  absl::Status first;
  for (auto it = work.begin(); it != work.end();) {
    const absl::Status written = Write(it->first, it->second);
    metrics_->Increment(
        "dra_health_notes_total",
        {{"driver", options_.driver_name}, {"code", absl::StatusCodeToString(written.code())}});
    if (first.ok()) first = written;
    it = written.ok() ? work.erase(it) : std::next(it);
  }
  const absl::MutexLock lock(&mutex_);
  writing_ = false;
  for (auto& [identity, faults] : work) pending_[identity].merge(faults);
  const std::string error(first.message());
  if (error != logged_error_) {
    if (!error.empty()) {
      logger_.Error("a device's health could not be noted, a restart would forget it",
                    {{"error", first.ToString()}});
    } else {
      logger_.Info("devices' health is noted again");
    }
    logged_error_ = error;
  }
  return first;
}

}  // namespace dra::driver
