#pragma once

#include "dra/base/json.h"

// What of a resource.k8s.io/v1 Device decides how it is published. Pure; any thread; false for what is no object.
namespace dra::resource {

// True if a taint keeps new claims away: NoSchedule or NoExecute. Effect None, and one that is not known, only inform.
bool HasKeepAwayTaint(const Json& device);

}  // namespace dra::resource
