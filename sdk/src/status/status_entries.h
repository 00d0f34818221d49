#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "dra/base/json.h"
#include "dra/status/device_status_writer.h"

// The body of the apply that writes a claim's status.devices. Pure.
namespace dra::status {

// Entries ready to be sent: one for each (driver, pool, device, shareID), the last one of equal ones; conditions without
// a lastTransitionTime get `now`, since the API requires one.
std::vector<Json> NormalizeEntries(std::vector<Json> entries, absl::Time now);

// A ResourceClaim that holds nothing but identity and status.devices. The UID makes the server refuse it for another
// claim of the same name.
Json ApplyBody(const ClaimKey& claim, const std::vector<Json>& entries);

}  // namespace dra::status
