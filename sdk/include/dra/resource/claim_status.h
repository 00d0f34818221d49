#pragma once

#include <vector>

#include "dra/base/json.h"
#include "dra/resource/field_error.h"

namespace dra::resource {

// Validates `status.devices` of a ResourceClaim as the API server does.
//
// statuses: the array (null: empty). allocation: `status.allocation` (null: nothing allocated, so no entry may stand).
// Result: each fault with its path "status.devices[i]...". Pure; any thread.
// Source: kubernetes/kubernetes:pkg/apis/resource/validation (validateDeviceStatus), apimachinery meta/v1 Condition.
std::vector<FieldError> ValidateDeviceStatuses(const Json& statuses, const Json& allocation);

}  // namespace dra::resource
