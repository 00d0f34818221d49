#include "inventory/accept.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "dra/resource/device_repair.h"
#include "dra/resource/names.h"
#include "dra/resource/slice.h"

namespace dra::inventory {
namespace {

constexpr size_t kMaxShownBytes = 128;
constexpr char kDeviceDropped[] = "device dropped";

// What the core itself writes into a slice.
constexpr std::array<absl::string_view, 8> kCoreFields = {
    "driver",  "pool",          "nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection",
    "devices", "sharedCounters"};

std::string Shown(absl::string_view text) {
  return std::string(resource::CutUtf8(text, kMaxShownBytes));
}

struct Item {
  std::string pool;
  std::string name;
  const loader::DiscoveredDevice* found;
};

class Acceptor {
 public:
  Acceptor(const Options& options, const loader::DiscoverResult& result)
      : options_(options), result_(result) {}

  AcceptedDiscovery Run() && {
    for (const Item& item : UsableItems()) AddDevice(item);
    DropDuplicateIdentities();
    for (const loader::CounterSet& set : result_.counter_sets) AddCounterSet(set);
    for (const auto& [suffix, fields] : result_.slice_fields)
      AddSliceFields(PoolName(options_, suffix), fields);
    return std::move(accepted_);
  }

 private:
  void Report(const std::string& pool, const std::string& device, std::string field,
              absl::string_view value, std::string problem, std::string action) {
    accepted_.findings.push_back(
        {pool, device, std::move(field), Shown(value), std::move(problem), std::move(action)});
  }

  // Items that name a device; sorted, so that of duplicates the same one is always kept.
  std::vector<Item> UsableItems() {
    std::vector<Item> items;
    for (const loader::DiscoverItem& item : result_.items) {
      if (!item.device.has_value()) {
        accepted_.error_subjects.insert(item.error_subject);
        Report("", item.error_subject, "", "",
               absl::StrCat("could not be looked at: ", item.error.message()),
               "skipped; a device known by this name or identity is kept");
        continue;
      }
      items.push_back({PoolName(options_, item.device->pool), StringOr(item.device->device, "name"),
                       &*item.device});
    }
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
      return std::tie(a.pool, a.name, a.found->identity) <
             std::tie(b.pool, b.name, b.found->identity);
    });
    return items;
  }

  void AddDevice(const Item& item) {
    const std::string& identity = item.found->identity;
    if (const absl::Status status = resource::CheckPoolName(item.pool); !status.ok()) {
      Report(item.pool, item.name, "pool", item.found->pool, std::string(status.message()),
             kDeviceDropped);
      return;
    }
    if (identity.empty()) {
      Report(item.pool, item.name, "identity", "",
             "must not be empty: give a serial, UUID or PCI address that stays with the hardware",
             "device skipped");
      return;
    }
    const auto known = accepted_.devices.find({item.pool, item.name});
    if (known != accepted_.devices.end()) {
      Report(item.pool, item.name, "name", identity,
             absl::StrCat("is the name of device \"", known->second.identity, "\" already"),
             kDeviceDropped);
      return;
    }
    resource::RepairedDevice repaired =
        resource::RepairDevice(options_.driver_name, item.found->device);
    for (resource::Problem& problem : repaired.problems) {
      accepted_.findings.push_back({item.pool, item.name, std::move(problem.field),
                                    std::move(problem.value), std::move(problem.problem),
                                    std::move(problem.action)});
    }
    if (!repaired.device.has_value()) return;
    std::vector<loader::ExclusionKey> keys = item.found->exclusion_keys;
    if (keys.empty()) keys.push_back({absl::StrCat(item.pool, "/", item.name), ""});
    accepted_.devices.emplace(DeviceKey(item.pool, item.name),
                              Candidate{identity, std::move(keys), std::move(*repaired.device)});
  }

  // One physical thing may be published as several devices only if they say so by a common exclusion key.
  void DropDuplicateIdentities() {
    std::map<std::string, DeviceKey> first;
    for (auto it = accepted_.devices.begin(); it != accepted_.devices.end();) {
      const auto [other, is_new] = first.emplace(it->second.identity, it->first);
      if (is_new || ShareKey(accepted_.devices.at(other->second), it->second)) {
        ++it;
        continue;
      }
      Report(it->first.first, it->first.second, "identity", it->second.identity,
             absl::StrCat("is the identity of device \"", other->second.second,
                          "\" already, and they have no exclusion key in common"),
             kDeviceDropped);
      it = accepted_.devices.erase(it);
    }
  }

  static bool ShareKey(const Candidate& a, const Candidate& b) {
    return std::any_of(
        a.exclusion_keys.begin(), a.exclusion_keys.end(), [&b](const loader::ExclusionKey& key) {
          return std::any_of(
              b.exclusion_keys.begin(), b.exclusion_keys.end(),
              [&key](const loader::ExclusionKey& other) { return other.key == key.key; });
        });
  }

  void AddCounterSet(const loader::CounterSet& set) {
    const std::string pool = PoolName(options_, set.pool);
    const std::string name = StringOr(set.counter_set, "name");
    const std::string field = absl::StrCat("sharedCounters[", name, "]");
    const std::vector<resource::FieldError> errors =
        resource::ValidateCounterSet(set.counter_set, "");
    if (!errors.empty()) {
      Report(pool, "", field, DumpJson(set.counter_set), resource::JoinFieldErrors(errors),
             "counter set dropped");
    } else if (!accepted_.counter_sets[pool].emplace(name, set.counter_set).second) {
      Report(pool, "", field, name, "the pool has a counter set of this name already",
             "counter set dropped");
    }
  }

  void AddSliceFields(const std::string& pool, const Json& fields) {
    Json& kept = accepted_.slice_fields[pool];
    kept = Json::object();
    if (!fields.is_object()) {
      if (!fields.is_null())
        Report(pool, "", "", DumpJson(fields), "slice fields must be an object", "dropped");
      return;
    }
    for (const auto& [name, value] : fields.items()) {
      std::string problem;
      if (std::find(kCoreFields.begin(), kCoreFields.end(), name) != kCoreFields.end()) {
        problem = "is written by the driver itself";
      } else if (name == "partitionTypeAttribute") {
        problem = std::string(
            resource::CheckFullyQualifiedName(value.is_string() ? value.get<std::string>() : "")
                .message());
      } else if (name == "skipNodeOperations") {
        problem = SkipNodeOperationsProblem(value);
      }
      if (problem.empty()) {
        kept[name] = value;
      } else {
        Report(pool, "", name, DumpJson(value), std::move(problem), "slice field dropped");
      }
    }
  }

  std::string SkipNodeOperationsProblem(const Json& value) const {
    const Json slice = {{"metadata", {{"name", "check"}}},
                        {"spec",
                         {{"driver", "check"},
                          {"nodeName", "check"},
                          {"pool", {{"name", "check"}, {"resourceSliceCount", 1}}},
                          {"skipNodeOperations", value}}}};
    return resource::JoinFieldErrors(resource::ValidateResourceSlice(slice));
  }

  const Options& options_;
  const loader::DiscoverResult& result_;
  AcceptedDiscovery accepted_;
};

}  // namespace

std::string PoolName(const Options& options, absl::string_view suffix) {
  return suffix.empty() ? options.node_name : absl::StrCat(options.node_name, "/", suffix);
}

AcceptedDiscovery Accept(const Options& options, const loader::DiscoverResult& result) {
  return Acceptor(options, result).Run();
}

void DropWithoutCounters(AcceptedDiscovery* accepted) {
  for (auto it = accepted->devices.begin(); it != accepted->devices.end();) {
    std::vector<const Json*> sets;
    for (const auto& [name, set] : accepted->counter_sets[it->first.first]) sets.push_back(&set);
    const std::vector<resource::FieldError> errors =
        resource::ValidatePool({&it->second.device}, sets);
    if (errors.empty()) {
      ++it;
      continue;
    }
    accepted->findings.push_back({it->first.first, it->first.second, "consumesCounters", "",
                                  resource::JoinFieldErrors(errors), kDeviceDropped});
    it = accepted->devices.erase(it);
  }
}

std::set<std::string> ConsumedCounterSets(const Json& device) {
  std::set<std::string> names;
  const Json* list = Find(device, "consumesCounters");
  if (list == nullptr || !list->is_array()) return names;
  for (const Json& item : *list) names.insert(StringOr(item, "counterSet"));
  return names;
}

}  // namespace dra::inventory
