#include "absl/strings/match.h"
#include "dra/resource/names.h"
#include "resource/device_rules.h"

namespace dra::resource {
namespace {

void CheckMapping(FieldReader& reader, const Json& mapping, const std::string& mapping_path,
                  const Json* capacity) {
  const std::string* key = reader.String(mapping, mapping_path, "capacityKey");
  const std::optional<Quantity> per_capacity =
      reader.QuantityAt(mapping, mapping_path, "capacityMultiplier");
  const std::optional<Quantity> per_device =
      reader.QuantityAt(mapping, mapping_path, "deviceMultiplier");
  const bool has_multiplier = Member(mapping, "capacityMultiplier") != nullptr;
  if (key != nullptr) {
    reader.CheckName(*key, Child(mapping_path, "capacityKey"), CheckQualifiedName(*key));
    if (capacity == nullptr || Find(*capacity, *key) == nullptr) {
      reader.Invalid(Child(mapping_path, "capacityKey"), *key, "must be a capacity of the device");
    }
    if (!has_multiplier)
      reader.Required(Child(mapping_path, "capacityMultiplier"), "required with capacityKey");
  } else if (has_multiplier) {
    reader.Required(Child(mapping_path, "capacityKey"), "required with capacityMultiplier");
  }
  const bool by_device = Member(mapping, "deviceMultiplier") != nullptr;
  if (by_device && (key != nullptr || has_multiplier)) {
    reader.Invalid(mapping_path, mapping,
                   "must be either by capacityKey and capacityMultiplier or by deviceMultiplier");
  } else if (!by_device && key == nullptr && !has_multiplier) {
    reader.Required(mapping_path,
                    "one of capacityKey with capacityMultiplier, or deviceMultiplier, is required");
  }
  if (per_capacity.has_value() && per_capacity->Sign() <= 0) {
    reader.Invalid(Child(mapping_path, "capacityMultiplier"), per_capacity->ToString(),
                   "must be greater than zero");
  }
  if (per_device.has_value() && per_device->Sign() <= 0) {
    reader.Invalid(Child(mapping_path, "deviceMultiplier"), per_device->ToString(),
                   "must be greater than zero");
  }
}

void CheckOverhead(FieldReader& reader, const Json& overhead, const std::string& overhead_path) {
  if (Member(overhead, "perPod") == nullptr && Member(overhead, "perContainer") == nullptr) {
    reader.Required(overhead_path, "at least one of `perPod` and `perContainer` is required");
  }
  for (const absl::string_view part : {"perPod", "perContainer"}) {
    const std::optional<Quantity> amount = reader.QuantityAt(overhead, overhead_path, part);
    if (amount.has_value() && amount->Sign() < 0) {
      reader.Invalid(Child(overhead_path, part), amount->ToString(), "must not be negative");
    }
  }
}

}  // namespace

void CheckNodeAllocatable(FieldReader& reader, const Json& device, const std::string& path) {
  const Json* resources = reader.Object(device, path, "nodeAllocatableResources");
  if (resources == nullptr) return;
  const Json* capacity = Member(device, "capacity");
  for (const auto& [name, resource] : resources->items()) {
    const std::string key_path = Key(Child(path, "nodeAllocatableResources"), name);
    if (name != "cpu" && name != "memory" &&
        (!absl::StartsWith(name, "hugepages-") || name.size() == 10)) {
      reader.Invalid(key_path, name, "must be cpu, memory or hugepages-<size>");
    }
    if (!reader.IsObject(resource, key_path)) continue;
    const Json* mapping = reader.Object(resource, key_path, "mapping");
    const Json* overhead = reader.Object(resource, key_path, "overhead");
    if (mapping == nullptr && overhead == nullptr) {
      reader.Required(key_path, "at least one of `mapping` and `overhead` is required");
    }
    if (mapping != nullptr) CheckMapping(reader, *mapping, Child(key_path, "mapping"), capacity);
    if (overhead != nullptr) CheckOverhead(reader, *overhead, Child(key_path, "overhead"));
  }
}

}  // namespace dra::resource
