#include "testing/status_apply.h"

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "testing/api_errors.h"

namespace dra::testing {
namespace {

// Other managers of an entry.
std::vector<std::string> OtherOwners(const StatusOwners& owners, const std::string& manager,
                                     const std::string& key) {
  std::vector<std::string> others;
  for (const auto& [name, keys] : owners) {
    if (name != manager && keys.count(key) > 0) others.push_back(name);
  }
  return others;
}

// `entry` over `live`: members of `entry` win, conditions merge by type.
Json MergeEntry(const Json& live, const Json& entry) {
  Json merged = live;
  for (const auto& [name, value] : entry.items()) {
    if (name != "conditions" || !value.is_array() || !merged.contains(name) ||
        !merged[name].is_array()) {
      merged[name] = value;
      continue;
    }
    for (const Json& condition : value) {
      bool found = false;
      for (Json& existing : merged[name]) {
        if (StringOr(existing, "type") == StringOr(condition, "type")) {
          existing = condition;
          found = true;
        }
      }
      if (!found) merged[name].push_back(condition);
    }
  }
  return merged;
}

}  // namespace

std::string DeviceStatusKey(const Json& entry) {
  return absl::StrCat(StringOr(entry, "driver"), "|", StringOr(entry, "pool"), "|",
                      StringOr(entry, "device"), "|", StringOr(entry, "shareID"));
}

absl::StatusOr<Json> ApplyDeviceStatuses(const kube::Resource& resource, absl::string_view name,
                                         const Json& live, const Json& applied,
                                         absl::string_view manager, bool force,
                                         StatusOwners& owners) {
  const std::string self(manager);
  std::map<std::string, const Json*> wanted;
  if (applied.is_array()) {
    for (const Json& entry : applied) {
      if (!wanted.emplace(DeviceStatusKey(entry), &entry).second) {
        return InvalidError(resource, name,
                            {{"FieldValueDuplicate", "status.devices", "duplicate entry"}});
      }
    }
  }
  Json result = Json::array();
  std::set<std::string> present;
  Causes conflicts;
  if (live.is_array()) {
    for (const Json& entry : live) {
      const std::string key = DeviceStatusKey(entry);
      present.insert(key);
      const std::vector<std::string> others = OtherOwners(owners, self, key);
      const auto found = wanted.find(key);
      if (found == wanted.end()) {
        const auto own = owners.find(self);
        const bool was_mine = own != owners.end() && own->second.count(key) > 0;
        if (!was_mine || !others.empty()) result.push_back(entry);
        continue;
      }
      if (others.empty()) {
        // Entries that nobody applied (a PUT wrote them) are merged into, as fields of an updater would be.
        const auto own = owners.find(self);
        const bool was_mine = own != owners.end() && own->second.count(key) > 0;
        result.push_back(was_mine ? *found->second : MergeEntry(entry, *found->second));
        continue;
      }
      const Json merged = MergeEntry(entry, *found->second);
      if (merged != entry && !force) {
        conflicts.push_back({"FieldManagerConflict", absl::StrCat(".status.devices[", key, "]"),
                             absl::StrCat("conflict with \"", others.front(), "\"")});
      }
      result.push_back(merged);
    }
  }
  if (!conflicts.empty()) {
    return ConflictError(resource, name,
                         absl::StrCat("Apply failed with ", conflicts.size(), " conflict(s)"),
                         conflicts);
  }
  std::set<std::string> mine;
  if (applied.is_array()) {
    for (const Json& entry : applied) {
      const std::string key = DeviceStatusKey(entry);
      mine.insert(key);
      if (present.count(key) == 0) result.push_back(entry);
      if (!force) continue;
      // A forced change takes the entry over from the others.
      for (auto& [other, keys] : owners) {
        if (other != self) keys.erase(key);
      }
    }
  }
  owners[self] = mine;
  return result;
}

}  // namespace dra::testing
