#include "status/status_entries.h"

#include <map>
#include <tuple>
#include <utility>

#include "nlohmann/json.hpp"

namespace dra::status {

std::vector<Json> NormalizeEntries(std::vector<Json> entries, absl::Time now) {
  const std::string time = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", now, absl::UTCTimeZone());
  std::map<std::tuple<std::string, std::string, std::string, std::string>, size_t> seen;
  std::vector<Json> result;
  for (Json& entry : entries) {
    if (!entry.is_object()) continue;
    const auto conditions = entry.find("conditions");
    if (conditions != entry.end() && conditions->is_array()) {
      for (Json& condition : *conditions) {
        if (condition.is_object() && StringOr(condition, "lastTransitionTime").empty()) {
          condition["lastTransitionTime"] = time;
        }
      }
    }
    const auto key = std::make_tuple(StringOr(entry, "driver"), StringOr(entry, "pool"),
                                     StringOr(entry, "device"), StringOr(entry, "shareID"));
    const auto [found, added] = seen.emplace(key, result.size());
    if (added) {
      result.push_back(std::move(entry));
    } else {
      result[found->second] = std::move(entry);
    }
  }
  return result;
}

Json ApplyBody(const ClaimKey& claim, const std::vector<Json>& entries) {
  return {
      {"apiVersion", "resource.k8s.io/v1"},
      {"kind", "ResourceClaim"},
      {"metadata", {{"name", claim.name}, {"namespace", claim.namespace_name}, {"uid", claim.uid}}},
      {"status", {{"devices", Json(entries)}}}};
}

}  // namespace dra::status
