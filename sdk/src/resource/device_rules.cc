#include "resource/device_rules.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "dra/resource/limits.h"
#include "dra/resource/names.h"
#include "dra/resource/time.h"

namespace dra::resource {
namespace {

void CheckAttributesAndCapacities(FieldReader& reader, const Json& device,
                                  const std::string& path) {
  const Json* attributes = reader.Object(device, path, "attributes");
  const Json* capacity = reader.Object(device, path, "capacity");
  const size_t entries = (attributes ? attributes->size() : 0) + (capacity ? capacity->size() : 0);
  if (entries > kMaxAttributesAndCapacities) {
    reader.Invalid(path, entries,
                   absl::StrCat("the total number of attributes and capacities must not exceed ",
                                kMaxAttributesAndCapacities));
  }
  const bool shared = BoolOr(device, "allowMultipleAllocations");
  size_t values = 0;
  if (attributes != nullptr) {
    for (const auto& [name, attribute] : attributes->items()) {
      const std::string key_path = Key(Child(path, "attributes"), name);
      reader.CheckName(name, key_path, CheckQualifiedName(name));
      CheckAttribute(reader, attribute, key_path);
      values += AttributeValueCount(attribute);
    }
  }
  if (values > kMaxAttributeValues) {
    reader.Invalid(
        path, values,
        absl::StrCat("the total number of attribute values must not exceed ", kMaxAttributeValues));
  }
  if (capacity == nullptr) return;
  for (const auto& [name, entry] : capacity->items()) {
    const std::string key_path = Key(Child(path, "capacity"), name);
    reader.CheckName(name, key_path, CheckQualifiedName(name));
    CheckCapacity(reader, entry, key_path, shared);
  }
}

void CheckConsumedCounters(FieldReader& reader, const Json& device, const std::string& path) {
  const Json* list = reader.Array(device, path, "consumesCounters");
  if (list == nullptr) return;
  const std::string list_path = Child(path, "consumesCounters");
  if (list->size() > kMaxCounterConsumptionsPerDevice) {
    reader.TooMany(list_path, list->size(), kMaxCounterConsumptionsPerDevice);
  }
  std::set<std::string> seen;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string item_path = Index(list_path, i);
    const Json& item = (*list)[i];
    if (!reader.IsObject(item, item_path)) continue;
    const std::string* set = reader.Name(item, item_path, "counterSet", CheckDnsLabel);
    if (set != nullptr && !seen.insert(*set).second)
      reader.Duplicate(Child(item_path, "counterSet"), *set);
    CheckCounters(reader, item, item_path, kMaxCountersPerConsumption);
    reader.NameSet(item, item_path, "compatibilityGroups", kMaxCompatibilityGroups, CheckDnsLabel);
  }
}

void CheckBindingConditions(FieldReader& reader, const Json& device, const std::string& path) {
  const std::set<std::string> conditions =
      reader.NameSet(device, path, "bindingConditions", kMaxBindingConditions, CheckLabelName);
  const std::set<std::string> failures = reader.NameSet(
      device, path, "bindingFailureConditions", kMaxBindingFailureConditions, CheckLabelName);
  reader.Bool(device, path, "bindsToNode");
  const auto has_items = [&device](absl::string_view name) {
    const Json* list = Member(device, name);
    return list != nullptr && !list->empty();
  };
  const bool has_conditions = has_items("bindingConditions");
  const bool has_failures = has_items("bindingFailureConditions");
  if (has_conditions && !has_failures) {
    reader.Invalid(Child(path, "bindingFailureConditions"), Json::array(),
                   "must be set together with bindingConditions");
  }
  if (has_failures && !has_conditions) {
    reader.Invalid(Child(path, "bindingConditions"), Json::array(),
                   "must be set together with bindingFailureConditions");
  }
  for (const std::string& name : failures) {
    if (conditions.contains(name)) {
      reader.Invalid(Child(path, "bindingFailureConditions"), name,
                     "must not be in bindingConditions as well");
    }
  }
}

void CheckDeviceNodes(FieldReader& reader, const Json& device, const std::string& path,
                      bool per_device) {
  size_t set = 0;
  for (const absl::string_view name : {"nodeName", "nodeSelector", "allNodes"}) {
    if (Member(device, name) == nullptr) continue;
    ++set;
    if (!per_device) {
      reader.Forbidden(
          Child(path, name),
          "only allowed when `perDeviceNodeSelection` is set in the ResourceSlice spec");
    }
  }
  if (!per_device) return;
  if (set == 0) {
    reader.Required(path,
                    "exactly one of `nodeName`, `nodeSelector` or `allNodes` is required when "
                    "`perDeviceNodeSelection` is set");
  } else if (set > 1) {
    reader.Invalid(path, set,
                   "exactly one of `nodeName`, `nodeSelector` or `allNodes` is required");
  }
  if (Member(device, "nodeName") != nullptr)
    reader.Name(device, path, "nodeName", CheckDnsSubdomain);
  if (const Json* selector = reader.Object(device, path, "nodeSelector")) {
    CheckNodeSelector(reader, *selector, Child(path, "nodeSelector"));
  }
  const std::optional<bool> all = reader.Bool(device, path, "allNodes");
  if (all.has_value() && !*all) {
    reader.Invalid(Child(path, "allNodes"), false, "must be either unset or set to true");
  }
}

void CheckTaints(FieldReader& reader, const Json& device, const std::string& path) {
  const Json* taints = reader.Array(device, path, "taints");
  if (taints == nullptr) return;
  const std::string list_path = Child(path, "taints");
  if (taints->size() > kMaxTaintsPerDevice)
    reader.TooMany(list_path, taints->size(), kMaxTaintsPerDevice);
  for (size_t i = 0; i < taints->size(); ++i) CheckTaint(reader, (*taints)[i], Index(list_path, i));
}

}  // namespace

void CheckTaint(FieldReader& reader, const Json& taint, const std::string& path) {
  if (!reader.IsObject(taint, path)) return;
  reader.Name(taint, path, "key", CheckLabelName);
  if (const std::string* value = reader.String(taint, path, "value")) {
    if (const absl::Status status = CheckLabelValue(*value); !status.ok()) {
      reader.Invalid(Child(path, "value"), *value, status.message());
    }
  }
  const std::string* effect = reader.String(taint, path, "effect");
  if (Member(taint, "effect") == nullptr || (effect != nullptr && effect->empty())) {
    reader.Required(Child(path, "effect"), "");
  } else if (effect != nullptr && *effect != "None" && *effect != "NoSchedule" &&
             *effect != "NoExecute") {
    reader.NotSupported(Child(path, "effect"), *effect, {"NoExecute", "NoSchedule", "None"});
  }
  if (const std::string* text = reader.String(taint, path, "timeAdded")) {
    if (!ParseTime(*text).has_value()) {
      reader.Invalid(Child(path, "timeAdded"), *text, "must be an RFC 3339 time");
    }
  }
}

void CheckCounters(FieldReader& reader, const Json& parent, const std::string& path, size_t limit) {
  const std::string map_path = Child(path, "counters");
  const Json* counters = reader.Object(parent, path, "counters");
  if (counters == nullptr || counters->empty()) {
    if (counters != nullptr || Member(parent, "counters") == nullptr) {
      reader.Required(map_path, "must have at least one counter");
    }
    return;
  }
  if (counters->size() > limit) reader.TooMany(map_path, counters->size(), limit);
  for (const auto& [name, counter] : counters->items()) {
    const std::string key_path = Key(map_path, name);
    reader.CheckName(name, key_path, CheckDnsLabel(name));
    if (!reader.IsObject(counter, key_path)) continue;
    if (Member(counter, "value") == nullptr) reader.Required(Child(key_path, "value"), "");
    reader.QuantityAt(counter, key_path, "value");
  }
}

void CheckCounterSet(FieldReader& reader, const Json& counter_set, const std::string& path) {
  if (!reader.IsObject(counter_set, path)) return;
  reader.Name(counter_set, path, "name", CheckDnsLabel);
  CheckCounters(reader, counter_set, path, kMaxCountersPerSet);
}

void CheckDevice(FieldReader& reader, const Json& device, const std::string& path,
                 bool per_device_node_selection) {
  if (!reader.IsObject(device, path)) return;
  reader.Name(device, path, "name", CheckDnsLabel);
  reader.Bool(device, path, "allowMultipleAllocations");
  CheckAttributesAndCapacities(reader, device, path);
  CheckConsumedCounters(reader, device, path);
  CheckDeviceNodes(reader, device, path, per_device_node_selection);
  CheckTaints(reader, device, path);
  CheckBindingConditions(reader, device, path);
  CheckNodeAllocatable(reader, device, path);
}

}  // namespace dra::resource
