#include "publisher/selection.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "dra/resource/device_traits.h"
#include "dra/resource/slice.h"
#include "nlohmann/json.hpp"
#include "publisher/refusals.h"

namespace dra::publisher {
namespace {

using loader::FieldSupport;
constexpr size_t kMaxFindingValue = 128;

bool IsSet(const Json& object, absl::string_view key) {
  const Json* value = Find(object, key);
  if (value == nullptr || value->is_null()) return false;
  return value->is_boolean() ? value->get<bool>() : !value->empty();
}

// A field without which a device would mean something dangerous: overlapping partitions would look independent, shares
// exclusive, sick devices healthy, unprepared ones ready.
struct Lean {
  const char* field;
  const char* gate;
  FieldSupport loader::ServerFields::*support;
  bool (*leans)(const Json& device);
  std::vector<const char*> members;  // what is stripped from a held device
};

const std::vector<Lean>& Leans() {
  static const auto& kLeans = *new std::vector<Lean>{
      {"consumesCounters",
       "DRAPartitionableDevices",
       &loader::ServerFields::counters,
       [](const Json& d) { return IsSet(d, "consumesCounters"); },
       {"consumesCounters"}},
      {"allowMultipleAllocations",
       "DRAConsumableCapacity",
       &loader::ServerFields::multiple_allocations,
       [](const Json& d) { return IsSet(d, "allowMultipleAllocations"); },
       {"allowMultipleAllocations"}},
      {"taints",
       "DRADeviceTaints",
       &loader::ServerFields::taints,
       resource::HasKeepAwayTaint,
       {"taints"}},
      {"bindingConditions",
       "DRADeviceBindingConditions",
       &loader::ServerFields::binding_conditions,
       [](const Json& d) { return IsSet(d, "bindingConditions"); },
       {"bindingConditions", "bindingFailureConditions", "bindsToNode"}},
  };
  return kLeans;
}

std::string NotKept(FieldSupport support, const char* gate) {
  return support == FieldSupport::kDropped
             ? absl::StrCat("the API server drops this field; feature gate ", gate,
                            " is off or unknown to it")
             : absl::StrCat(
                   "it is not known yet whether the API server keeps this field "
                   "(feature gate ",
                   gate, ")");
}

class PoolSelector {
 public:
  PoolSelector(const inventory::Pool& pool, const HeldDevices& held,
               const loader::ServerFields& fields, const Refusals& refusals, Selection& selection)
      : pool_(pool), held_(held), fields_(fields), refusals_(refusals), selection_(selection) {}

  WantedPool Run() {
    WantedPool wanted;
    wanted.name = pool_.name;
    for (const auto& device : pool_.devices) {
      std::optional<Json> published = SelectDevice(*device);
      if (published.has_value()) {
        wanted.devices.push_back(std::move(*published));
      } else {
        ++selection_.devices_dropped;
      }
    }
    SelectCounters(wanted);
    SelectSliceFields(wanted);
    CheckPool(wanted);
    selection_.devices += wanted.devices.size();
    return wanted;
  }

 private:
  void Tell(const std::string& device, std::string field, const Json& value, std::string problem,
            std::string action, const char* reason) {
    inventory::Finding finding{pool_.name,         device,
                               std::move(field),   ShortText(value),
                               std::move(problem), std::move(action)};
    selection_.reports.push_back({std::move(finding), reason});
  }

  std::optional<Json> SelectDevice(const inventory::Device& source) {
    const bool held = held_.count({pool_.name, source.name}) != 0;
    if (source.withheld && !held) return std::nullopt;  // the inventory has told why
    Json device = source.device;
    for (const Lean& lean : Leans()) {
      const FieldSupport support = fields_.*lean.support;
      if (!lean.leans(device) || support == FieldSupport::kKept) continue;
      selection_.lacks_fields = true;
      if (!held) {
        Tell(source.name, lean.field, *Find(device, lean.field), NotKept(support, lean.gate),
             "device not published", "DeviceDropped");
        return std::nullopt;
      }
      if (support == FieldSupport::kDropped) {
        Tell(source.name, lean.field, *Find(device, lean.field), NotKept(support, lean.gate),
             "a claim holds the device: published without the field", "FieldDropped");
      }
    }
    StripDropped(source, device);
    for (const Refusal* refusal :
         refusals_.For(Refusal::Subject::kDevice, pool_.name, source.name, source.device)) {
      selection_.reports.push_back(refusal->report);
      if (refusal->path.empty()) return std::nullopt;
      ErasePath(device, refusal->path);
    }
    return device;
  }

  // Takes away what the server would drop anyway (then wanted and stored can be equal) or refuse.
  void StripDropped(const inventory::Device& source, Json& device) {
    if (fields_.taint_effect_none != FieldSupport::kKept) StripInformingTaints(source, device);
    for (const Lean& lean : Leans()) {
      if (fields_.*lean.support != FieldSupport::kDropped) continue;
      for (const char* member : lean.members) device.erase(member);
    }
    if (fields_.multiple_allocations == FieldSupport::kDropped) StripRequestPolicies(device);
    if (fields_.node_allocatable == FieldSupport::kDropped &&
        IsSet(device, "nodeAllocatableResources")) {
      selection_.lacks_fields = true;
      Tell(source.name, "nodeAllocatableResources", device["nodeAllocatableResources"],
           NotKept(fields_.node_allocatable, "DRANodeAllocatableResources"),
           "published without the field", "FieldDropped");
      device.erase("nodeAllocatableResources");
    }
    if (fields_.list_attributes != FieldSupport::kKept) StripListAttributes(source, device);
  }

  // A server that does not know this effect refuses the whole slice for it.
  void StripInformingTaints(const inventory::Device& source, Json& device) {
    const auto taints = device.find("taints");
    if (taints == device.end() || !taints->is_array()) return;
    Json kept = Json::array();
    for (Json& taint : *taints) {
      if (StringOr(taint, "effect") != "None") {
        kept.push_back(std::move(taint));
        continue;
      }
      selection_.lacks_fields = true;
      const bool too_old = fields_.taints == FieldSupport::kKept &&
                           fields_.taint_effect_none == FieldSupport::kDropped;
      Tell(source.name, "taints", StringOr(taint, "key"),
           too_old
               ? "the API server is older than Kubernetes 1.35 and refuses the taint effect None"
               : NotKept(fields_.taint_effect_none, "DRADeviceTaints"),
           "published without the taint", "FieldDropped");
    }
    if (kept.empty()) {
      device.erase("taints");
    } else {
      *taints = std::move(kept);
    }
  }

  static void StripRequestPolicies(Json& device) {
    const auto capacity = device.find("capacity");
    if (capacity == device.end() || !capacity->is_object()) return;
    for (Json& entry : *capacity) {
      if (entry.is_object()) entry.erase("requestPolicy");
    }
  }

  // With the gate off a list leaves an attribute without a value, and the server refuses the whole slice.
  void StripListAttributes(const inventory::Device& source, Json& device) {
    const auto attributes = device.find("attributes");
    if (attributes == device.end() || !attributes->is_object()) return;
    for (auto it = attributes->begin(); it != attributes->end();) {
      const Json& value = it.value();
      const bool list = Find(value, "ints") != nullptr || Find(value, "bools") != nullptr ||
                        Find(value, "strings") != nullptr || Find(value, "versions") != nullptr;
      if (!list) {
        ++it;
        continue;
      }
      selection_.lacks_fields = true;
      Tell(source.name, absl::StrCat("attributes[", it.key(), "]"), value,
           NotKept(fields_.list_attributes, "DRAListTypeAttributes"), "attribute dropped",
           "AttributeDropped");
      it = attributes->erase(it);
    }
  }

  void SelectCounters(WantedPool& wanted) {
    // With the field dropped its devices are gone too; an empty slice in place of the counters would mean nothing.
    if (fields_.counters != FieldSupport::kKept) {
      selection_.lacks_fields = selection_.lacks_fields || !pool_.counter_sets.empty();
      return;
    }
    for (const Json& set : pool_.counter_sets) {
      const auto refused =
          refusals_.For(Refusal::Subject::kCounterSet, pool_.name, StringOr(set, "name"), set);
      for (const Refusal* refusal : refused) selection_.reports.push_back(refusal->report);
      if (refused.empty()) wanted.counter_sets.push_back(set);
    }
  }

  void SelectSliceFields(WantedPool& wanted) {
    if (!pool_.slice_fields.is_object()) return;
    wanted.slice_fields = pool_.slice_fields;
    for (auto it = wanted.slice_fields.begin(); it != wanted.slice_fields.end();) {
      const auto refused =
          refusals_.For(Refusal::Subject::kSliceField, pool_.name, it.key(), it.value());
      for (const Refusal* refusal : refused) selection_.reports.push_back(refusal->report);
      bool drop = !refused.empty();
      if (it.key() == "skipNodeOperations" &&
          fields_.skip_node_operations == FieldSupport::kDropped) {
        selection_.lacks_fields = true;
        Tell("", it.key(), it.value(),
             NotKept(fields_.skip_node_operations, "DRAOptionalNodeOperations"),
             "published without the field", "FieldDropped");
        drop = true;
      }
      it = drop ? wanted.slice_fields.erase(it) : std::next(it);
    }
  }

  // What no server checks, but makes an allocator refuse the whole pool: double names, counters that are not there.
  void CheckPool(WantedPool& wanted) {
    std::set<std::string> names;
    std::vector<Json> unique;
    for (Json& device : wanted.devices) {
      const std::string name = StringOr(device, "name");
      if (names.insert(name).second) {
        unique.push_back(std::move(device));
        continue;
      }
      ++selection_.devices_dropped;
      Tell(name, "name", name, "a device of this name is in the pool already", "device dropped",
           "DeviceDropped");
    }
    wanted.devices = std::move(unique);
    std::vector<const Json*> sets;
    for (const Json& set : wanted.counter_sets) sets.push_back(&set);
    std::vector<Json> sound;
    for (Json& device : wanted.devices) {
      const bool stripped = fields_.counters != FieldSupport::kKept;
      const auto errors =
          stripped ? std::vector<resource::FieldError>() : resource::ValidatePool({&device}, sets);
      const resource::FieldError* missing = nullptr;
      for (const resource::FieldError& error : errors) {
        if (error.field.rfind("devices", 0) == 0) missing = &error;
      }
      if (missing == nullptr) {
        sound.push_back(std::move(device));
        continue;
      }
      ++selection_.devices_dropped;
      Tell(StringOr(device, "name"), "consumesCounters", device["consumesCounters"],
           missing->ToString(), "device dropped", "DeviceDropped");
    }
    wanted.devices = std::move(sound);
  }

  const inventory::Pool& pool_;
  const HeldDevices& held_;
  const loader::ServerFields& fields_;
  const Refusals& refusals_;
  Selection& selection_;
};

}  // namespace

std::string ShortText(const Json& value) {
  std::string text = value.is_string() ? value.get<std::string>() : DumpJson(value);
  if (text.size() <= kMaxFindingValue) return text;
  size_t end = kMaxFindingValue;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text;
}

Selection Select(const inventory::Snapshot& snapshot, const HeldDevices& held,
                 const loader::ServerFields& fields, const Refusals& refusals) {
  Selection selection;
  for (const inventory::Pool& pool : snapshot.pools) {
    selection.pools.push_back(PoolSelector(pool, held, fields, refusals, selection).Run());
  }
  return selection;
}

}  // namespace dra::publisher
