#include "dra/publisher/planner.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/time/time.h"
#include "dra/resource/limits.h"
#include "dra/resource/semantic_equal.h"
#include "dra/resource/slice.h"
#include "dra/resource/time.h"
#include "publisher/pool_layout.h"
#include "publisher/slice_names.h"

namespace dra::publisher {
namespace {

bool IsNonEmptyList(const Json* value) {
  return value != nullptr && value->is_array() && !value->empty();
}

// Whole seconds, as the server stores them; text that is no time stays for the server to judge.
void RoundTime(Json& taint) {
  const std::optional<absl::Time> time = resource::ParseTime(StringOr(taint, "timeAdded"));
  if (!time.has_value()) return;
  taint["timeAdded"] = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", *time, absl::UTCTimeZone());
}

// A taint's clock runs from the first time it was seen, whoever restarted in between: tolerationSeconds count from it.
void KeepTaintTimes(Json& device, const Json* stored_device) {
  const auto found = device.find("taints");
  if (found == device.end() || !found->is_array()) return;
  const Json* old_taints = stored_device == nullptr ? nullptr : Find(*stored_device, "taints");
  for (Json& taint : *found) {
    if (!taint.is_object()) continue;
    RoundTime(taint);
    if (!IsNonEmptyList(old_taints)) continue;
    for (const Json& old : *old_taints) {
      const bool same = StringOr(old, "key") == StringOr(taint, "key") &&
                        StringOr(old, "value") == StringOr(taint, "value") &&
                        StringOr(old, "effect") == StringOr(taint, "effect");
      if (same && Find(old, "timeAdded") != nullptr) {
        taint["timeAdded"] = *Find(old, "timeAdded");
        break;
      }
    }
  }
}

Json SpecFor(const WantedPool& pool, const Slot& slot, int64_t generation, size_t count,
             const PlanOptions& options) {
  Json spec = Json::object();
  Json items = Json::array();
  bool consumes = false;
  for (const Json* item : slot.items) {
    consumes = consumes || IsNonEmptyList(Find(*item, "consumesCounters"));
    items.push_back(*item);
  }
  if (!slot.counters && pool.slice_fields.is_object()) {
    spec = pool.slice_fields;
    // The server takes it only in a slice with a device that consumes counters.
    if (!consumes) spec.erase("partitionTypeAttribute");
  }
  for (const char* field :
       {"nodeSelector", "allNodes", "perDeviceNodeSelection", "devices", "sharedCounters"}) {
    spec.erase(field);  // not a backend's to set: pools are local to the node
  }
  spec["driver"] = options.driver_name;
  spec["nodeName"] = options.node_name;
  spec["pool"] = {{"name", pool.name}, {"generation", generation}, {"resourceSliceCount", count}};
  if (!items.empty()) spec[slot.counters ? "sharedCounters" : "devices"] = std::move(items);
  return spec;
}

Json OwnerReferences(const PlanOptions& options) {
  return Json::array({{{"apiVersion", "v1"},
                       {"kind", "Node"},
                       {"name", options.node_name},
                       {"uid", options.node_uid},
                       {"controller", true}}});
}

bool OwnerIsRight(const Json& slice, const PlanOptions& options) {
  const Json* metadata = Find(slice, "metadata");
  const Json* owners = metadata == nullptr ? nullptr : Find(*metadata, "ownerReferences");
  return owners != nullptr && *owners == OwnerReferences(options);
}

Operation DeleteOf(const Json& slice) {
  Operation operation;
  operation.kind = Operation::Kind::kDelete;
  operation.pool = PoolOf(slice);
  operation.name = Meta(slice, "name");
  operation.uid = Meta(slice, "uid");
  operation.resource_version = Meta(slice, "resourceVersion");
  return operation;
}

Operation UpdateOf(const Json& slice, Json spec, const PlanOptions& options) {
  Operation operation;
  operation.kind = Operation::Kind::kUpdate;
  operation.pool = PoolOf(slice);
  operation.name = Meta(slice, "name");
  Json metadata = slice.at("metadata");  // labels and annotations of others stay
  metadata.erase("managedFields");
  metadata["ownerReferences"] = OwnerReferences(options);
  operation.body = {{"apiVersion", "resource.k8s.io/v1"},
                    {"kind", "ResourceSlice"},
                    {"metadata", std::move(metadata)},
                    {"spec", std::move(spec)}};
  return operation;
}

Operation CreateOf(const std::string& pool, uint64_t index, Json spec, const PlanOptions& options) {
  Operation operation;
  operation.kind = Operation::Kind::kCreate;
  operation.pool = pool;
  operation.name = GenerateName(index, options.driver_name, options.node_name);
  operation.body = {
      {"apiVersion", "resource.k8s.io/v1"},
      {"kind", "ResourceSlice"},
      {"metadata",
       {{"generateName", operation.name}, {"ownerReferences", OwnerReferences(options)}}},
      {"spec", std::move(spec)}};
  return operation;
}

// What has to be written of one layout at one generation.
struct Writes {
  std::vector<Json> specs;         // one for each slot
  std::vector<bool> spec_differs;  // kept slots only; a new slot always does
  size_t count = 0;                // slots whose spec differs or is new
};

Writes Compare(const WantedPool& pool, const Layout& layout, int64_t generation,
               const PlanOptions& options) {
  Writes writes;
  for (const Slot& slot : layout.slots) {
    Json spec = SpecFor(pool, slot, generation, layout.slots.size(), options);
    bool differs = true;
    if (slot.stored != nullptr) {
      differs = !SameSpec(slot.stored->at("spec"), spec) &&
                !(options.tolerate && options.tolerate(*slot.stored, spec));
    }
    if (differs) ++writes.count;
    writes.spec_differs.push_back(differs);
    writes.specs.push_back(std::move(spec));
  }
  return writes;
}

// Every slice of one pool. `stored` in any order.
void PlanPool(WantedPool pool, std::vector<const Json*> stored, const PlanOptions& options,
              std::vector<Operation>& operations) {
  int64_t generation = 0;
  for (const Json* slice : stored) {
    generation = std::max(generation, PoolNumber(*slice, "generation"));
  }
  std::sort(stored.begin(), stored.end(), [](const Json* a, const Json* b) {
    const int64_t first = PoolNumber(*a, "generation"), second = PoolNumber(*b, "generation");
    return first != second ? first > second : Meta(*a, "name") < Meta(*b, "name");
  });
  std::map<std::string, const Json*> stored_devices;
  for (const Json* slice : stored) {
    const Json* devices = Find(slice->at("spec"), "devices");
    if (devices == nullptr || !devices->is_array()) continue;
    for (const Json& device : *devices) stored_devices.emplace(StringOr(device, "name"), &device);
  }
  for (Json& device : pool.devices) {
    const auto found = stored_devices.find(StringOr(device, "name"));
    KeepTaintTimes(device, found == stored_devices.end() ? nullptr : found->second);
  }

  const size_t limit = DevicesPerSlice(pool, options.never_tainted);
  Layout layout = LayOut(pool, stored, generation, limit, /*rewrite=*/false);
  Writes writes = Compare(pool, layout, generation, options);
  bool number_changed = false;
  for (const Slot& slot : layout.slots) {
    number_changed = number_changed || (slot.stored != nullptr &&
                                        PoolNumber(*slot.stored, "generation") == generation &&
                                        PoolNumber(*slot.stored, "resourceSliceCount") !=
                                            static_cast<int64_t>(layout.slots.size()));
  }
  const bool rewrite = writes.count > 0 && (stored.empty() || writes.count > 1 || number_changed);
  if (rewrite) {
    // A generation may be lowered if every slice follows, so the largest number wraps instead of overflowing.
    layout = LayOut(pool, stored, generation, limit, /*rewrite=*/true);
    generation = generation >= std::numeric_limits<int64_t>::max() - 1 ? 1 : generation + 1;
    writes = Compare(pool, layout, generation, options);
  }

  for (const Json* slice : layout.obsolete) operations.push_back(DeleteOf(*slice));
  std::set<uint64_t> used_indexes;
  for (size_t i = 0; i < layout.slots.size(); ++i) {
    const Slot& slot = layout.slots[i];
    if (slot.stored == nullptr) continue;
    if (const auto index = IndexOf(Meta(*slot.stored, "name"))) used_indexes.insert(*index);
    if (rewrite || writes.spec_differs[i] || !OwnerIsRight(*slot.stored, options)) {
      operations.push_back(UpdateOf(*slot.stored, std::move(writes.specs[i]), options));
    }
  }
  uint64_t index = 0;
  for (size_t i = 0; i < layout.slots.size(); ++i) {
    if (layout.slots[i].stored != nullptr) continue;
    while (used_indexes.count(index) != 0) ++index;
    operations.push_back(CreateOf(pool.name, index++, std::move(writes.specs[i]), options));
  }
}

// The spec with devices and counter sets in the order of their names.
Json Canonical(const Json& spec) {
  Json canonical = spec;
  for (const char* key : {"devices", "sharedCounters"}) {
    const auto list = canonical.find(key);
    if (list == canonical.end() || !list->is_array()) continue;
    std::stable_sort(list->begin(), list->end(), [](const Json& a, const Json& b) {
      return StringOr(a, "name") < StringOr(b, "name");
    });
  }
  return canonical;
}

}  // namespace

size_t DevicesPerSlice(const WantedPool& pool, bool never_tainted) {
  if (!never_tainted) return resource::kMaxDevicesPerSliceWithTaints;
  size_t limit = resource::kMaxDevicesPerSlice;
  for (const Json& device : pool.devices) {
    limit = std::min(limit, resource::MaxDevicesBeside(device));
  }
  return limit;
}

bool SameSpec(const Json& a, const Json& b) {
  if (!a.is_object() || !b.is_object()) return a == b;
  return resource::SemanticallyEqual(Canonical(a), Canonical(b));
}

std::vector<Operation> Plan(const std::vector<WantedPool>& wanted, const std::vector<Json>& stored,
                            const PlanOptions& options) {
  std::map<std::string, std::vector<const Json*>> by_pool;
  for (const Json& slice : stored) {
    // The caller's selector says so already; a slice of somebody else is never touched, whatever the server sent.
    if (!IsOurs(slice, options.driver_name, options.node_name)) continue;
    if (Meta(slice, "name").empty()) continue;
    by_pool[PoolOf(slice)].push_back(&slice);
  }
  std::vector<Operation> operations;
  std::map<std::string, const WantedPool*> pools;
  for (const WantedPool& pool : wanted) pools.emplace(pool.name, &pool);
  for (const auto& [name, slices] : by_pool) {
    if (pools.count(name) != 0) continue;
    for (const Json* slice : slices) operations.push_back(DeleteOf(*slice));
  }
  for (const auto& [name, pool] : pools) {
    const auto found = by_pool.find(name);
    PlanPool(*pool, found == by_pool.end() ? std::vector<const Json*>() : found->second, options,
             operations);
  }
  return operations;
}

}  // namespace dra::publisher
