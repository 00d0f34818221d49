#include "dra/resource/slice.h"

#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "dra/resource/limits.h"
#include "dra/resource/names.h"
#include "resource/device_rules.h"
#include "resource/field_reader.h"

namespace dra::resource {
namespace {

constexpr char kNodeRule[] =
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";

void CheckTrueOrUnset(FieldReader& reader, const Json& spec, absl::string_view name) {
  const std::optional<bool> value = reader.Bool(spec, "spec", name);
  if (value.has_value() && !*value) {
    reader.Invalid(Child("spec", name), false, "must be either unset or set to true");
  }
}

void CheckMetadata(FieldReader& reader, const Json& slice) {
  const Json* metadata = reader.Object(slice, "", "metadata");
  const Json none = Json::object();
  const Json& meta = metadata == nullptr ? none : *metadata;
  const std::string* name = reader.String(meta, "metadata", "name");
  const std::string* prefix = reader.String(meta, "metadata", "generateName");
  if (name != nullptr && !name->empty()) {
    reader.CheckName(*name, "metadata.name", CheckDnsSubdomain(*name));
  } else if (prefix == nullptr || prefix->empty()) {
    reader.Required("metadata.name", "name or generateName is required");
  }
  if (prefix != nullptr && !prefix->empty()) {
    // A '-' at the end is fine: random letters follow it.
    std::string start = *prefix;
    if (start.size() > 1 && start.back() == '-') start.back() = 'a';
    if (const absl::Status status = CheckDnsSubdomain(start); !status.ok()) {
      reader.Invalid("metadata.generateName", *prefix, status.message());
    }
  }
}

void CheckPool(FieldReader& reader, const Json& spec) {
  const Json* pool = reader.Object(spec, "spec", "pool");
  const Json none = Json::object();
  if (pool == nullptr) {
    if (Member(spec, "pool") != nullptr) return;
    pool = &none;  // the server then names what is missing in it
  }
  if (const std::string* name = reader.Name(*pool, "spec.pool", "name", CheckPoolName);
      name != nullptr && name->size() > kMaxPoolNameBytes) {
    reader.TooLong("spec.pool.name", *name, kMaxPoolNameBytes);
  }
  const std::optional<int64_t> generation = reader.Int(*pool, "spec.pool", "generation");
  if (generation.value_or(0) < 0) {
    reader.Invalid("spec.pool.generation", *generation, "must be greater than or equal to zero");
  }
  const int64_t count = reader.Int(*pool, "spec.pool", "resourceSliceCount").value_or(0);
  if (count <= 0)
    reader.Invalid("spec.pool.resourceSliceCount", count, "must be greater than zero");
}

void CheckNodeSelection(FieldReader& reader, const Json& spec) {
  std::vector<std::string> set;
  for (const absl::string_view name :
       {"nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"}) {
    if (Member(spec, name) != nullptr) set.push_back(absl::StrCat("`", name, "`"));
  }
  if (set.empty()) reader.Required("spec", kNodeRule);
  if (set.size() > 1) {
    reader.Invalid("spec", absl::StrCat("{", absl::StrJoin(set, ", "), "}"),
                   absl::StrCat(kNodeRule, ", but multiple fields are set"));
  }
  if (const std::string* node = reader.String(spec, "spec", "nodeName")) {
    if (node->empty()) {
      reader.Invalid("spec.nodeName", *node, "must be either unset or set to a non-empty string");
    } else {
      reader.CheckName(*node, "spec.nodeName", CheckDnsSubdomain(*node));
    }
  }
  if (const Json* selector = reader.Object(spec, "spec", "nodeSelector")) {
    CheckNodeSelector(reader, *selector, "spec.nodeSelector");
    const Json* terms = Member(*selector, "nodeSelectorTerms");
    if (terms != nullptr && terms->is_array() && terms->size() > kNodeSelectorTermsPerSlice) {
      reader.Invalid("spec.nodeSelector.nodeSelectorTerms", *terms,
                     "must have exactly one node selector term");
    }
  }
  CheckTrueOrUnset(reader, spec, "allNodes");
  CheckTrueOrUnset(reader, spec, "perDeviceNodeSelection");
}

void CheckUniqueNames(FieldReader& reader, const Json& list, const std::string& path) {
  std::set<std::string> names;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string name = StringOr(list[i], "name");
    if (!name.empty() && !names.insert(name).second)
      reader.Duplicate(Child(Index(path, i), "name"), name);
  }
}

void CheckDevices(FieldReader& reader, const Json& spec, const Json& devices) {
  size_t limit = kMaxDevicesPerSlice;
  for (const Json& device : devices) limit = std::min(limit, MaxDevicesBeside(device));
  if (devices.size() > limit) reader.TooMany("spec.devices", devices.size(), limit);
  const bool per_device = BoolOr(spec, "perDeviceNodeSelection");
  for (size_t i = 0; i < devices.size(); ++i)
    CheckDevice(reader, devices[i], Index("spec.devices", i), per_device);
  CheckUniqueNames(reader, devices, "spec.devices");
}

void CheckSharedCounters(FieldReader& reader, const Json& sets) {
  if (sets.size() > kMaxCounterSetsPerSlice) {
    reader.TooMany("spec.sharedCounters", sets.size(), kMaxCounterSetsPerSlice);
  }
  for (size_t i = 0; i < sets.size(); ++i)
    CheckCounterSet(reader, sets[i], Index("spec.sharedCounters", i));
  CheckUniqueNames(reader, sets, "spec.sharedCounters");
}

bool ConsumesCounters(const Json& device) {
  const Json* list = Member(device, "consumesCounters");
  return list != nullptr && !list->empty();
}

// An attribute without domain belongs to the driver's domain.
const Json* FindAttribute(const Json& device, absl::string_view driver,
                          absl::string_view qualified) {
  const Json* attributes = Member(device, "attributes");
  if (attributes == nullptr) return nullptr;
  if (const Json* found = Member(*attributes, qualified)) return found;
  const size_t slash = qualified.find('/');
  return qualified.substr(0, slash) == driver ? Member(*attributes, qualified.substr(slash + 1))
                                              : nullptr;
}

void CheckPartitionType(FieldReader& reader, const Json& spec, const Json* devices) {
  const std::string* name = reader.String(spec, "spec", "partitionTypeAttribute");
  if (name == nullptr) return;
  const absl::Status valid = CheckFullyQualifiedName(*name);
  reader.CheckName(*name, "spec.partitionTypeAttribute", valid);
  if (!valid.ok()) return;
  bool used = false;
  for (size_t i = 0; devices != nullptr && i < devices->size(); ++i) {
    const Json& device = (*devices)[i];
    if (!ConsumesCounters(device)) continue;
    used = true;
    const Json* attribute = FindAttribute(device, StringOr(spec, "driver"), *name);
    if (attribute == nullptr || Member(*attribute, "string") == nullptr) {
      reader.Required(Key(Child(Index("spec.devices", i), "attributes"), *name),
                      "must be a string attribute: it is the partitionTypeAttribute and the device "
                      "consumes counters");
    }
  }
  if (!used)
    reader.Forbidden("spec.partitionTypeAttribute", "only allowed when a device consumes counters");
}

void CheckSkipNodeOperations(FieldReader& reader, const Json& spec) {
  const Json* list = reader.Array(spec, "spec", "skipNodeOperations");
  if (list == nullptr) return;
  constexpr char kPath[] = "spec.skipNodeOperations";
  std::set<std::string> seen;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string* name = reader.AsString((*list)[i], Index(kPath, i));
    if (name == nullptr) continue;
    if (*name != "NodePrepareResources" && *name != "NodeUnprepareResources" && *name != "*") {
      reader.NotSupported(Index(kPath, i), *name,
                          {"*", "NodePrepareResources", "NodeUnprepareResources"});
    }
    if (!seen.insert(*name).second) reader.Duplicate(Index(kPath, i), *name);
  }
  if (seen.contains("NodePrepareResources") && !seen.contains("NodeUnprepareResources") &&
      !seen.contains("*")) {
    reader.Invalid(kPath, *list,
                   "NodePrepareResources may only be skipped together with NodeUnprepareResources");
  }
}

}  // namespace

size_t MaxDevicesBeside(const Json& device) {
  const Json* taints = Member(device, "taints");
  if (ConsumesCounters(device) || (taints != nullptr && !taints->empty()))
    return kMaxDevicesPerSliceWithTaints;
  const Json* attributes = Member(device, "attributes");
  if (attributes == nullptr || !attributes->is_object()) return kMaxDevicesPerSlice;
  for (const Json& attribute : *attributes) {
    for (const absl::string_view list : {"ints", "bools", "strings", "versions"}) {
      if (Member(attribute, list) != nullptr) return kMaxDevicesPerSliceWithTaints;
    }
  }
  return kMaxDevicesPerSlice;
}

std::vector<FieldError> ValidateResourceSlice(const Json& slice) {
  FieldReader reader;
  if (!reader.IsObject(slice, "")) return reader.Take();
  CheckMetadata(reader, slice);
  const Json* spec = reader.Object(slice, "", "spec");
  if (spec == nullptr) {
    if (Member(slice, "spec") == nullptr) reader.Required("spec", "");
    return reader.Take();
  }
  reader.Name(*spec, "spec", "driver", CheckDriverNameAsServer);
  CheckPool(reader, *spec);
  CheckNodeSelection(reader, *spec);
  const Json* devices = reader.Array(*spec, "spec", "devices");
  const Json* counters = reader.Array(*spec, "spec", "sharedCounters");
  if (devices != nullptr && counters != nullptr) {  // even if both are empty
    reader.Invalid("spec", "{`devices`, `sharedCounters`}",
                   "only one of `devices` or `sharedCounters` may be set; put the counters into a "
                   "slice of their own");
  }
  if (devices != nullptr) CheckDevices(reader, *spec, *devices);
  if (counters != nullptr) CheckSharedCounters(reader, *counters);
  CheckPartitionType(reader, *spec, devices);
  CheckSkipNodeOperations(reader, *spec);
  return reader.Take();
}

std::vector<FieldError> ValidateDevice(const Json& device, absl::string_view path) {
  FieldReader reader;
  CheckDevice(reader, device, std::string(path), /*per_device_node_selection=*/false);
  return reader.Take();
}

std::vector<FieldError> ValidateCounterSet(const Json& counter_set, absl::string_view path) {
  FieldReader reader;
  CheckCounterSet(reader, counter_set, std::string(path));
  return reader.Take();
}

std::vector<FieldError> ValidateResourceSliceUpdate(const Json& slice, const Json& stored) {
  FieldReader reader;
  const Json none;
  const auto member = [&none](const Json& object, absl::string_view name) -> const Json& {
    const Json* value = Member(object, name);
    return value == nullptr ? none : *value;
  };
  const auto check = [&](const Json& now, const Json& before, absl::string_view path,
                         absl::string_view name) {
    if (member(now, name) != member(before, name)) {
      reader.Invalid(Child(path, name), member(now, name), "field is immutable");
    }
  };
  const Json& now = member(slice, "spec");
  const Json& before = member(stored, "spec");
  check(now, before, "spec", "driver");
  check(now, before, "spec", "nodeName");
  check(member(now, "pool"), member(before, "pool"), "spec.pool", "name");
  return reader.Take();
}

std::vector<FieldError> ValidatePool(const std::vector<const Json*>& devices,
                                     const std::vector<const Json*>& counter_sets) {
  FieldReader reader;
  std::map<std::string, const Json*> sets;
  for (size_t i = 0; i < counter_sets.size(); ++i) {
    const std::string name = StringOr(*counter_sets[i], "name");
    if (!sets.emplace(name, Member(*counter_sets[i], "counters")).second) {
      reader.Duplicate(Child(Index("sharedCounters", i), "name"), name);
    }
  }
  std::set<std::string> names;
  for (size_t i = 0; i < devices.size(); ++i) {
    const std::string path = Index("devices", i);
    const std::string name = StringOr(*devices[i], "name");
    if (!names.insert(name).second) reader.Duplicate(Child(path, "name"), name);
    const Json* list = Member(*devices[i], "consumesCounters");
    for (size_t j = 0; list != nullptr && list->is_array() && j < list->size(); ++j) {
      const std::string item_path = Index(Child(path, "consumesCounters"), j);
      const std::string set = StringOr((*list)[j], "counterSet");
      const auto found = sets.find(set);
      if (found == sets.end()) {
        reader.Invalid(Child(item_path, "counterSet"), set,
                       "no counter set of this name is in the pool");
        continue;
      }
      const Json* counters = Member((*list)[j], "counters");
      if (counters == nullptr || !counters->is_object()) continue;
      for (const auto& [counter, value] : counters->items()) {
        if (found->second != nullptr && Member(*found->second, counter) != nullptr) continue;
        reader.Invalid(Key(Child(item_path, "counters"), counter), counter,
                       absl::StrCat("counter set \"", set, "\" has no counter of this name"));
      }
    }
  }
  return reader.Take();
}

}  // namespace dra::resource
