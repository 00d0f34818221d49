#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "dra/resource/quantity.h"
#include "dra/resource/slice.h"
#include "testing/admission.h"

namespace dra::testing {
namespace {

const Json& Null() {
  static const Json null;
  return null;
}

void Keep(Json& object, const std::set<std::string>& known) {
  if (!object.is_object()) return;
  for (auto member = object.begin(); member != object.end();) {
    member = known.count(member.key()) > 0 ? std::next(member) : object.erase(member);
  }
}

bool IsList(const Json& object, absl::string_view member) {
  const Json* list = Find(object, member);
  return list != nullptr && list->is_array();
}

bool AnyDevice(const Json& slice, const std::function<bool(const Json&)>& predicate) {
  const Json& devices = At(slice, {"spec", "devices"});
  if (!devices.is_array()) return false;
  for (const Json& device : devices) {
    if (predicate(device)) return true;
  }
  return false;
}

// A gated group of fields: how to see that an object uses it, and how to take it away.
struct GatedFields {
  absl::string_view gate;
  bool (*used)(const Json& slice);
  void (*drop)(Json& spec);
};

template <typename Function>
void ForEachDevice(Json& spec, Function function) {
  if (!IsList(spec, "devices")) return;
  for (Json& device : spec["devices"]) {
    if (device.is_object()) function(device);
  }
}

template <typename Function>
void ForEachEntry(Json& object, const char* member, Function function) {
  if (!object.is_object() || !object.contains(member)) return;
  for (Json& entry : object[member]) {
    if (entry.is_object()) function(entry);
  }
}

bool HasListAttribute(const Json& device) {
  const Json* attributes = Find(device, "attributes");
  if (attributes == nullptr || !attributes->is_object()) return false;
  for (const Json& attribute : *attributes) {
    for (const char* kind : {"ints", "bools", "strings", "versions"}) {
      if (Find(attribute, kind) != nullptr) return true;
    }
  }
  return false;
}

bool HasRequestPolicy(const Json& device) {
  const Json* capacity = Find(device, "capacity");
  if (capacity == nullptr || !capacity->is_object()) return false;
  for (const Json& entry : *capacity) {
    if (Find(entry, "requestPolicy") != nullptr) return true;
  }
  return false;
}

// Source: the drop functions of kubernetes/kubernetes:pkg/registry/resource/resourceslice/strategy.go.
const GatedFields kGatedFields[] = {
    {"DRAPartitionableDevices",
     [](const Json& slice) {
       return !At(slice, {"spec", "sharedCounters"}).empty() ||
              !At(slice, {"spec", "perDeviceNodeSelection"}).empty() ||
              AnyDevice(slice, [](const Json& device) {
                return Find(device, "consumesCounters") != nullptr;
              });
     },
     [](Json& spec) {
       spec.erase("sharedCounters");
       spec.erase("perDeviceNodeSelection");
       ForEachDevice(spec, [](Json& device) {
         for (const char* member : {"consumesCounters", "nodeName", "nodeSelector", "allNodes"})
           device.erase(member);
       });
     }},
    {"DRAConsumableCapacity",
     [](const Json& slice) {
       return AnyDevice(slice, [](const Json& device) {
         return Find(device, "allowMultipleAllocations") != nullptr || HasRequestPolicy(device);
       });
     },
     [](Json& spec) {
       ForEachDevice(spec, [](Json& device) {
         device.erase("allowMultipleAllocations");
         ForEachEntry(device, "capacity", [](Json& entry) { entry.erase("requestPolicy"); });
       });
     }},
    {"DRADeviceTaints",
     [](const Json& slice) {
       return AnyDevice(slice,
                        [](const Json& device) { return Find(device, "taints") != nullptr; });
     },
     [](Json& spec) { ForEachDevice(spec, [](Json& device) { device.erase("taints"); }); }},
    {"DRADeviceBindingConditions",
     [](const Json& slice) {
       return AnyDevice(slice, [](const Json& device) {
         return Find(device, "bindsToNode") != nullptr ||
                Find(device, "bindingConditions") != nullptr ||
                Find(device, "bindingFailureConditions") != nullptr;
       });
     },
     [](Json& spec) {
       ForEachDevice(spec, [](Json& device) {
         for (const char* member :
              {"bindsToNode", "bindingConditions", "bindingFailureConditions"}) {
           device.erase(member);
         }
       });
     }},
    // The attribute stays without a value, and the whole write then fails validation.
    {"DRAListTypeAttributes", [](const Json& slice) { return AnyDevice(slice, HasListAttribute); },
     [](Json& spec) {
       ForEachDevice(spec, [](Json& device) {
         ForEachEntry(device, "attributes", [](Json& attribute) {
           for (const char* kind : {"ints", "bools", "strings", "versions"}) attribute.erase(kind);
         });
       });
     }},
    {"DRANodeAllocatableResources",
     [](const Json& slice) {
       return AnyDevice(slice, [](const Json& device) {
         return Find(device, "nodeAllocatableResources") != nullptr;
       });
     },
     [](Json& spec) {
       ForEachDevice(spec, [](Json& device) { device.erase("nodeAllocatableResources"); });
     }},
    {"DRAOptionalNodeOperations",
     [](const Json& slice) {
       return !At(slice, {"spec", "skipNodeOperations"}).empty();
     },
     [](Json& spec) { spec.erase("skipNodeOperations"); }},
    {"DRAPartitionableDevicesType",
     [](const Json& slice) {
       return !At(slice, {"spec", "partitionTypeAttribute"}).empty();
     },
     [](Json& spec) { spec.erase("partitionTypeAttribute"); }},
    {"DRADeviceCompatibilityGroups",
     [](const Json& slice) {
       return AnyDevice(slice, [](const Json& device) {
         const Json* consumed = Find(device, "consumesCounters");
         if (consumed == nullptr || !consumed->is_array()) return false;
         for (const Json& entry : *consumed) {
           if (Find(entry, "compatibilityGroups") != nullptr) return true;
         }
         return false;
       });
     },
     [](Json& spec) {
       ForEachDevice(spec, [](Json& device) {
         ForEachEntry(device, "consumesCounters",
                      [](Json& entry) { entry.erase("compatibilityGroups"); });
       });
     }},
};

void PruneUnknown(Json& spec) {
  Keep(spec, {"driver", "pool", "nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection",
              "devices", "sharedCounters", "partitionTypeAttribute", "skipNodeOperations"});
  if (spec.contains("pool")) Keep(spec["pool"], {"name", "generation", "resourceSliceCount"});
  ForEachDevice(spec, [](Json& device) {
    Keep(device,
         {"name", "attributes", "capacity", "consumesCounters", "nodeName", "nodeSelector",
          "allNodes", "taints", "bindsToNode", "bindingConditions", "bindingFailureConditions",
          "allowMultipleAllocations", "nodeAllocatableResources"});
    ForEachEntry(device, "attributes", [](Json& attribute) {
      Keep(attribute, {"int", "bool", "string", "version", "ints", "bools", "strings", "versions"});
    });
    ForEachEntry(device, "capacity", [](Json& entry) { Keep(entry, {"value", "requestPolicy"}); });
    ForEachEntry(device, "taints", [](Json& taint) {
      Keep(taint, {"key", "value", "effect", "timeAdded"});
    });
  });
}

absl::Status CanonicalCounters(Json& object, absl::string_view path) {
  if (!object.contains("counters") || !object["counters"].is_object()) return absl::OkStatus();
  for (auto& [name, counter] : object["counters"].items()) {
    DRA_RETURN_IF_ERROR(
        CanonicalQuantity(counter, "value", absl::StrCat(path, ".counters[", name, "]")));
  }
  return absl::OkStatus();
}

absl::Status CanonicalPolicy(Json& policy, absl::string_view path) {
  DRA_RETURN_IF_ERROR(CanonicalQuantity(policy, "default", path));
  if (IsList(policy, "validValues")) {
    for (Json& value : policy["validValues"]) {
      Json holder = {{"value", value}};
      DRA_RETURN_IF_ERROR(CanonicalQuantity(holder, "value", path));
      value = holder["value"];
    }
  }
  if (policy.contains("validRange")) {
    for (const char* member : {"min", "max", "step"}) {
      DRA_RETURN_IF_ERROR(CanonicalQuantity(policy["validRange"], member, path));
    }
  }
  return absl::OkStatus();
}

absl::Status CanonicalDevice(Json& device, const std::string& path) {
  if (!device.is_object()) return BadRequestError(absl::StrCat(path, " is no object"));
  if (device.contains("capacity") && device["capacity"].is_object()) {
    for (auto& [name, entry] : device["capacity"].items()) {
      const std::string at = absl::StrCat(path, ".capacity[", name, "]");
      DRA_RETURN_IF_ERROR(CanonicalQuantity(entry, "value", at));
      if (entry.is_object() && entry.contains("requestPolicy")) {
        DRA_RETURN_IF_ERROR(CanonicalPolicy(entry["requestPolicy"], at));
      }
    }
  }
  if (IsList(device, "consumesCounters")) {
    for (Json& consumed : device["consumesCounters"]) {
      if (consumed.is_object()) {
        DRA_RETURN_IF_ERROR(CanonicalCounters(consumed, absl::StrCat(path, ".consumesCounters")));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

const Json& At(const Json& object, std::initializer_list<absl::string_view> path) {
  const Json* value = &object;
  for (absl::string_view member : path) {
    value = Find(*value, member);
    if (value == nullptr) return Null();
  }
  return *value;
}

absl::Status CanonicalQuantity(Json& object, absl::string_view member, absl::string_view path) {
  const Json* value = Find(object, member);
  if (value == nullptr || value->is_null()) return absl::OkStatus();
  const absl::StatusOr<resource::Quantity> quantity = resource::Quantity::FromJson(*value);
  if (!quantity.ok()) {
    return BadRequestError(
        absl::StrCat("quantities must match the regular expression "
                     "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': ",
                     path, ".", member, " is ", DumpJson(*value)));
  }
  object[std::string(member)] = quantity->ToString();
  return absl::OkStatus();
}

absl::Status PrepareSlice(const ServerProfile& profile, absl::Time now, const Json& before,
                          Json& object) {
  if (!object.contains("spec")) return absl::OkStatus();
  Json& spec = object["spec"];
  if (!spec.is_object()) return BadRequestError("spec is no object");
  for (const char* list : {"devices", "sharedCounters"}) {
    if (spec.contains(list) && !spec[list].is_null() && !spec[list].is_array()) {
      return BadRequestError(absl::StrCat("spec.", list, " is no array"));
    }
  }
  PruneUnknown(spec);
  for (const GatedFields& fields : kGatedFields) {
    // What an object used before its gate was switched off may stay.
    if (!profile.Enabled(fields.gate) && (before.is_null() || !fields.used(before)))
      fields.drop(spec);
  }
  if (IsList(spec, "devices")) {
    size_t index = 0;
    for (Json& device : spec["devices"]) {
      DRA_RETURN_IF_ERROR(CanonicalDevice(device, absl::StrCat("spec.devices[", index++, "]")));
      if (!IsList(device, "taints")) continue;
      for (Json& taint : device["taints"]) {
        if (taint.is_object() && (!taint.contains("timeAdded") || taint["timeAdded"].is_null())) {
          taint["timeAdded"] = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", now, absl::UTCTimeZone());
        }
      }
    }
  }
  if (IsList(spec, "sharedCounters")) {
    for (Json& set : spec["sharedCounters"]) {
      if (set.is_object()) DRA_RETURN_IF_ERROR(CanonicalCounters(set, "spec.sharedCounters"));
    }
  }
  // Empty members are not written back.
  for (const char* list : {"devices", "sharedCounters"}) {
    if (spec.contains(list) && spec[list].empty()) spec.erase(list);
  }
  return absl::OkStatus();
}

Causes ValidateSlice(const ServerProfile& profile, const Json& before, const Json& object) {
  Causes causes;
  const auto add = [&](const std::vector<resource::FieldError>& errors) {
    for (const resource::FieldError& error : errors) {
      causes.push_back(
          {std::string(resource::FieldReasonName(error.reason)), error.field, error.Detail()});
    }
  };
  add(resource::ValidateResourceSlice(object));
  if (!before.is_null()) add(resource::ValidateResourceSliceUpdate(object, before));
  constexpr size_t kMaxTaints34 = 4;  // raised to 16 in 1.35, which also brought the effect None
  if (profile.minor < 35 && IsList(At(object, {"spec"}), "devices")) {
    size_t index = 0;
    for (const Json& device : object["spec"]["devices"]) {
      if (IsList(device, "taints") && device["taints"].size() > kMaxTaints34) {
        causes.push_back(
            {"FieldValueTooMany", absl::StrCat("spec.devices[", index, "].taints"),
             absl::StrCat("Too many: ", device["taints"].size(), ": must have at most 4 items")});
      }
      for (size_t i = 0; IsList(device, "taints") && i < device["taints"].size(); ++i) {
        if (StringOr(device["taints"][i], "effect") != "None") continue;
        causes.push_back(
            {"FieldValueNotSupported",
             absl::StrCat("spec.devices[", index, "].taints[", i, "].effect"),
             "Unsupported value: \"None\": supported values: \"NoExecute\", \"NoSchedule\""});
      }
      ++index;
    }
  }
  return causes;
}

}  // namespace dra::testing
