#pragma once

#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "dra/kube/api_client.h"

namespace dra::testing {

// Which field manager owns which entries of a claim's status.devices: manager -> entry keys.
using StatusOwners = std::map<std::string, std::set<std::string>>;

// The key of a map-list entry: driver, pool, device and shareID.
std::string DeviceStatusKey(const Json& entry);

// Server-side apply of `applied` (array, or null for none) on `live` (array or null): entries of this manager that it
// no longer lists go, unless another manager owns them too; listed ones are replaced, or merged where others own them.
// Errors: 409 with cause FieldManagerConflict for an entry of another manager that would change, unless `force`.
// Simplification: ownership is per entry, not per field.
absl::StatusOr<Json> ApplyDeviceStatuses(const kube::Resource& resource, absl::string_view name,
                                         const Json& live, const Json& applied,
                                         absl::string_view manager, bool force,
                                         StatusOwners& owners);

}  // namespace dra::testing
