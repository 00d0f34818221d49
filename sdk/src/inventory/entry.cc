#include "inventory/entry.h"

#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dra/resource/device_traits.h"
#include "dra/resource/limits.h"
#include "dra/resource/names.h"
#include "dra/resource/semantic_equal.h"
#include "dra/resource/time.h"

namespace dra::inventory {
namespace {

using loader::FieldSupport;

bool HasItems(const Json& object, absl::string_view name) {
  const Json* value = Find(object, name);
  return value != nullptr && !value->is_null() && !value->empty();
}

bool HasRequestPolicy(const Json& device) {
  const Json* capacity = Find(device, "capacity");
  if (capacity == nullptr || !capacity->is_object()) return false;
  for (const Json& entry : *capacity) {
    if (HasItems(entry, "requestPolicy")) return true;
  }
  return false;
}

struct Need {
  absl::string_view field;
  absl::string_view gate;
  FieldSupport support;
};

// The gated fields without which `device` would offer something else than there is.
std::vector<Need> Needs(const Json& device, const loader::ServerFields& fields) {
  std::vector<Need> needs;
  if (HasItems(device, "consumesCounters")) {
    needs.push_back({"consumesCounters",
                     "DRAPartitionableDevices (in its layout of 1.35 and later)", fields.counters});
  }
  if (BoolOr(device, "allowMultipleAllocations") || HasRequestPolicy(device)) {
    needs.push_back(
        {"allowMultipleAllocations", "DRAConsumableCapacity", fields.multiple_allocations});
  }
  if (HasItems(device, "bindingConditions") || BoolOr(device, "bindsToNode")) {
    needs.push_back({"bindingConditions", "DRADeviceBindingConditions", fields.binding_conditions});
  }
  if (resource::HasKeepAwayTaint(device)) {
    needs.push_back({"taints", "DRADeviceTaints", fields.taints});
  }
  return needs;
}

std::string TaintKey(const Options& options) {
  return options.taint_key.empty() ? absl::StrCat(options.driver_name, "/unhealthy")
                                   : options.taint_key;
}

std::string FormatSeconds(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

// Adds a taint that outranks the device's own: the last of too many own taints makes room, unless this one only informs.
// `room` is how many taints may stand before it.
void AddTaint(const std::string& key, TaintEffect effect, absl::Time since, size_t room,
              const std::string& value, Json* taints) {
  const char* const name = TaintEffectName(effect);
  for (const Json& taint : *taints) {
    // The backend's own word on the same key does that already.
    if (StringOr(taint, "key") == key && StringOr(taint, "effect") == name) return;
  }
  if (effect == TaintEffect::kNone && taints->size() > room) return;
  while (taints->size() > room) taints->erase(taints->size() - 1);
  Json taint = {{"key", key}, {"effect", name}, {"timeAdded", FormatSeconds(since)}};
  if (!value.empty() && resource::CheckLabelValue(value).ok()) taint["value"] = value;
  taints->push_back(std::move(taint));
}

// The device's own taints, that of a sick device, and that of a drained node.
Json Taints(const Options& options, const Drain& drain, const Entry& entry) {
  const Json* own = Find(entry.base, "taints");
  Json taints = own != nullptr && own->is_array() ? *own : Json::array();
  const size_t room = resource::kMaxTaintsPerDevice - 1;
  if (entry.fault.sick()) {
    const Fault& fault = entry.fault.fault();
    AddTaint(TaintKey(options), fault.effect, fault.effect_since, drain.on ? room - 1 : room,
             fault.fault_class, &taints);
  }
  if (drain.on) {
    AddTaint(absl::StrCat(options.driver_name, "/drain"), TaintEffect::kNoSchedule, drain.since,
             room, "", &taints);
  }
  return taints;
}

// The first of the backend's own taints that keeps work away, as health; nullopt if there is none.
std::optional<loader::DeviceHealth> OwnTaintHealth(const Json& device) {
  const Json* taints = Find(device, "taints");
  if (taints == nullptr || !taints->is_array()) return std::nullopt;
  for (const Json& taint : *taints) {
    const std::string effect = StringOr(taint, "effect");
    if (effect != "NoSchedule" && effect != "NoExecute") continue;
    const std::string key = StringOr(taint, "key");
    const std::string value = StringOr(taint, "value");
    loader::DeviceHealth health;
    health.state = loader::HealthState::kUnhealthy;
    health.fault_class = value.empty() ? key.substr(key.rfind('/') + 1) : value;
    health.message =
        absl::StrCat("tainted by its backend: ", key, value.empty() ? "" : "=", value, ":", effect);
    return health;
  }
  return std::nullopt;
}

// Gives each taint the time it appeared, whole seconds. Tolerations count from it, and the server would set it anew
// with every write that leaves it out.
void StampTaints(absl::Time now, Entry* entry, Json* taints) {
  std::map<std::string, absl::Time> times;
  for (Json& taint : *taints) {
    absl::Time added = now;
    const std::optional<absl::Time> given = resource::ParseTime(StringOr(taint, "timeAdded"));
    // A change of the value is the same taint, seen more clearly.
    const std::string id = absl::StrCat(StringOr(taint, "key"), "\n", StringOr(taint, "effect"));
    if (given.has_value()) {
      added = *given;
    } else {
      const auto known = entry->taint_times.find(id);
      added = known == entry->taint_times.end() ? now : known->second;
    }
    added = absl::FromUnixSeconds(absl::ToUnixSeconds(added));
    times[id] = added;
    taint["timeAdded"] = FormatSeconds(added);
  }
  entry->taint_times = std::move(times);
}

bool SameHealth(const loader::DeviceHealth& a, const loader::DeviceHealth& b) {
  const auto all = [](const loader::DeviceHealth& h) {
    return std::tie(h.state, h.fault_class, h.message, h.remedy, h.clears_with, h.severity,
                    h.unknown_severity);
  };
  return all(a) == all(b);
}

bool SamePicture(const Device& a, const Device& b) {
  return a.identity == b.identity && a.exclusion_keys == b.exclusion_keys && a.gone == b.gone &&
         a.withheld == b.withheld && a.leans == b.leans && a.hidden_fault == b.hidden_fault &&
         a.health_since == b.health_since && SameHealth(a.health, b.health) &&
         (a.device == b.device || resource::SemanticallyEqual(a.device, b.device));
}

}  // namespace

bool MergeHealth(Entry* entry, absl::Time now) {
  // Worst first. A fault stands while its monitor is silent; "unknown" is worse than a healthy word of old.
  loader::DeviceHealth health = entry->reported;
  if (entry->fault.sick()) {
    const Fault& fault = entry->fault.fault();
    health.state = loader::HealthState::kUnhealthy;
    health.fault_class = fault.fault_class;
    health.message = fault.message;
    health.remedy = fault.remedy;
    health.clears_with = fault.clears_with;
    health.severity = fault.severity;
  } else if (auto own = OwnTaintHealth(entry->base); own.has_value()) {
    health = *std::move(own);
  } else if (!entry->lost.empty()) {
    health.state = loader::HealthState::kUnhealthy;
    health.fault_class = "lost";
    health.message = entry->lost;
    health.remedy = "delete the pod, to have it scheduled anew";
    health.clears_with.clear();
    health.severity = loader::FaultSeverity::kCritical;
  }
  if (SameHealth(entry->health, health)) return false;
  const bool other_state = entry->health.state != health.state;
  if (other_state || entry->health.fault_class != health.fault_class ||
      entry->health.severity != health.severity) {
    // After a restart a stored fault is as old as it was.
    entry->health_since = entry->fault.sick() && other_state ? entry->fault.fault().since : now;
  }
  entry->health = std::move(health);
  entry->dirty = true;
  return other_state;
}

void Publish(const Options& options, const loader::ServerFields& fields, const Drain& drain,
             absl::Time now, Entry* entry) {
  entry->dirty = false;
  entry->findings.clear();
  Device device;
  device.pool = entry->pool;
  device.name = entry->name;
  device.identity = entry->identity;
  device.exclusion_keys = entry->exclusion_keys;
  device.health = entry->health;
  device.health_since = entry->health_since;
  device.gone = entry->gone;
  device.device = entry->base;
  Json taints = Taints(options, drain, *entry);
  StampTaints(now, entry, &taints);
  if (taints.empty()) {
    device.device.erase("taints");
  } else {
    device.device["taints"] = std::move(taints);
  }
  // Slices of a backend that never has taints may hold more devices than tainted ones can.
  const bool refused_taint = options.never_tainted && resource::HasKeepAwayTaint(device.device);
  if (options.never_tainted) device.device.erase("taints");

  std::vector<absl::string_view> dropped, gates;
  bool leans = refused_taint;
  bool hides_taint = refused_taint;
  for (const Need& need : Needs(device.device, fields)) {
    if (need.support == FieldSupport::kKept) continue;
    leans = true;
    if (need.support != FieldSupport::kDropped) continue;
    dropped.push_back(need.field);
    gates.push_back(need.gate);
    hides_taint = hides_taint || need.field == "taints";
  }
  // A taint may also be there for a drain, or only inform.
  const bool keeps_away =
      (entry->fault.sick() && entry->fault.fault().effect != TaintEffect::kNone) ||
      OwnTaintHealth(entry->base).has_value();
  device.hidden_fault = hides_taint && keeps_away;
  device.leans = leans;
  device.withheld = leans && !entry->held;
  if (!dropped.empty()) {
    entry->findings.push_back(
        {entry->pool, entry->name, absl::StrJoin(dropped, ", "), "",
         absl::StrCat(
             "the API server drops what the device leans on; off or unknown to it: feature gate ",
             absl::StrJoin(gates, ", ")),
         device.withheld ? "device withheld" : "device kept, a claim holds it"});
  }
  if (refused_taint) {
    entry->findings.push_back(
        {entry->pool, entry->name, "taints", "",
         "the backend declares that its devices are never tainted, but this one needs a taint",
         device.withheld ? "device withheld" : "device kept untainted, a claim holds it"});
  }
  if (entry->published == nullptr || !SamePicture(*entry->published, device)) {
    entry->published = std::make_shared<const Device>(std::move(device));
  }
}

}  // namespace dra::inventory
