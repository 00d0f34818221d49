#include "publisher/lost_fields.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dra::publisher {
namespace {

using loader::FieldSupport;
using loader::ServerFields;

struct Gate {
  const char* field;  // the last name of the path
  const char* gate;
  FieldSupport ServerFields::*support;  // nullptr: only reported
};

constexpr Gate kGates[] = {
    {"taints", "DRADeviceTaints", &ServerFields::taints},
    {"sharedCounters", "DRAPartitionableDevices", &ServerFields::counters},
    {"consumesCounters", "DRAPartitionableDevices", &ServerFields::counters},
    {"allowMultipleAllocations", "DRAConsumableCapacity", &ServerFields::multiple_allocations},
    {"requestPolicy", "DRAConsumableCapacity", &ServerFields::multiple_allocations},
    {"bindingConditions", "DRADeviceBindingConditions", &ServerFields::binding_conditions},
    {"bindingFailureConditions", "DRADeviceBindingConditions", &ServerFields::binding_conditions},
    {"bindsToNode", "DRADeviceBindingConditions", &ServerFields::binding_conditions},
    {"ints", "DRAListTypeAttributes", &ServerFields::list_attributes},
    {"bools", "DRAListTypeAttributes", &ServerFields::list_attributes},
    {"strings", "DRAListTypeAttributes", &ServerFields::list_attributes},
    {"versions", "DRAListTypeAttributes", &ServerFields::list_attributes},
    {"nodeAllocatableResources", "DRANodeAllocatableResources", &ServerFields::node_allocatable},
    {"nodeAllocatableResourceMappings", "DRANodeAllocatableResources",
     nullptr},  // its name in 1.36
    {"skipNodeOperations", "DRAOptionalNodeOperations", &ServerFields::skip_node_operations},
    {"partitionTypeAttribute", "DRAPartitionableDevicesType", nullptr},
    {"compatibilityGroups", "DRADeviceCompatibilityGroups", nullptr},
};

const Gate* GateOf(absl::string_view field) {
  for (const Gate& gate : kGates) {
    if (field == gate.field || absl::EndsWith(field, absl::StrCat(".", gate.field))) return &gate;
  }
  return nullptr;
}

// Absent, null, empty and false are one and the same to the API.
bool IsNothing(const Json* value) {
  if (value == nullptr || value->is_null()) return true;
  if (value->is_boolean()) return !value->get<bool>();
  if (value->is_string()) return value->get_ref<const std::string&>().empty();
  return (value->is_array() || value->is_object()) && value->empty();
}

class Comparison {
 public:
  void Spec(const Json& sent, const Json& stored) {
    for (const auto& [key, value] : sent.items()) {
      const Json* kept = Find(stored, key);
      if (key == "devices" && value.is_array()) {
        for (const Json& device : value) Device(device, kept);
      } else {
        Member("", key, value, kept);
      }
    }
  }

  std::vector<LostField> lost;

 private:
  void Device(const Json& sent, const Json* stored_devices) {
    const std::string name = StringOr(sent, "name");
    const Json* stored = nullptr;
    if (stored_devices != nullptr && stored_devices->is_array()) {
      for (const Json& device : *stored_devices) {
        if (StringOr(device, "name") == name) stored = &device;
      }
    }
    if (stored == nullptr) {
      Lose(name, "", sent);
      return;
    }
    for (const auto& [key, value] : sent.items()) Member(name, key, value, Find(*stored, key));
  }

  void Member(const std::string& device, const std::string& path, const Json& sent,
              const Json* stored) {
    if (IsNothing(&sent)) return;
    if (IsNothing(stored)) return Lose(device, path, sent);
    if (sent.is_array() && stored->is_array()) {
      if (stored->size() < sent.size()) return Lose(device, path, sent);
      for (size_t i = 0; i < sent.size(); ++i) {
        if (!sent[i].is_object()) continue;
        Member(device, absl::StrCat(path, "[", i, "]"), sent[i], &(*stored)[i]);
      }
    } else if (sent.is_object() && stored->is_object()) {
      const bool keyed = absl::EndsWith(path, "attributes") || absl::EndsWith(path, "capacity") ||
                         absl::EndsWith(path, "counters");
      for (const auto& [key, value] : sent.items()) {
        Member(device, keyed ? absl::StrCat(path, "[", key, "]") : absl::StrCat(path, ".", key),
               value, Find(*stored, key));
      }
    }
  }

  void Lose(const std::string& device, const std::string& field, const Json& value) {
    const Gate* gate = GateOf(field);
    lost.push_back({device, field, gate == nullptr ? "" : gate->gate, value});
  }
};

}  // namespace

std::vector<LostField> LostFields(const Json& sent_spec, const Json& stored_spec) {
  Comparison comparison;
  if (sent_spec.is_object()) comparison.Spec(sent_spec, stored_spec);
  return std::move(comparison.lost);
}

bool MarkDropped(const LostField& lost, loader::ServerFields& fields) {
  const Gate* gate = GateOf(lost.field);
  if (gate == nullptr || gate->support == nullptr) return false;
  if (fields.*gate->support == FieldSupport::kDropped) return false;
  fields.*gate->support = FieldSupport::kDropped;
  return true;
}

Report ReportOf(const std::string& pool, const LostField& lost) {
  inventory::Finding finding;
  finding.pool = pool;
  finding.device = lost.device;
  finding.field = lost.field;
  finding.value = ShortText(lost.value);
  finding.problem = lost.gate.empty()
                        ? "the API server dropped this field; it may be too old to know it"
                        : absl::StrCat("the API server dropped this field; feature gate ",
                                       lost.gate, " is off or unknown to it");
  finding.action = "field not sent again";
  return {std::move(finding), "FieldDropped"};
}

}  // namespace dra::publisher
