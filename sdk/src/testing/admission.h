#pragma once

#include "absl/time/time.h"
#include "dra/base/json.h"
#include "dra/kube/api_client.h"
#include "dra/testing/server_profile.h"
#include "testing/api_errors.h"

namespace dra::testing {

// What the registry of a kind does with an object before it is stored. Pure. `before` is null on create.

// Drops gated and unknown fields, sets timeAdded, writes quantities in canonical form.
// Errors: 400 for what does not decode: a quantity that is none, a field of the wrong JSON type.
absl::Status PrepareSlice(const ServerProfile& profile, absl::Time now, const Json& before,
                          Json& object);
// Errors by field: the limits and name rules of resource/v1, immutable fields.
Causes ValidateSlice(const ServerProfile& profile, const Json& before, const Json& object);

// Canonical quantities of specs and results, defaults of requests.
absl::Status PrepareClaim(const ServerProfile& profile, const Json& before, Json& object);
Causes ValidateClaim(const ServerProfile& profile, const Json& before, const Json& object);
// Removes the status entries of devices that left the allocation with this write.
void PruneDeviceStatuses(const Json& before, Json& object);
Causes ValidateClaimStatus(const ServerProfile& profile, const Json& before, const Json& object);

// object[a][b]... or null.
const Json& At(const Json& object, std::initializer_list<absl::string_view> path);
// Writes every Quantity under `member` of `object` (a string or number) back in canonical form.
absl::Status CanonicalQuantity(Json& object, absl::string_view member, absl::string_view path);

}  // namespace dra::testing
