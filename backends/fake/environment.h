#pragma once

#include <string>
#include <vector>

#include "dra/backend/backend.h"
#include "hardware.h"

namespace fake {

// The environment variables of one allocated device, with the names and values that containers of the public example
// driver get: GPU_DEVICE_<id>, ..._SHARING_STRATEGY, ..._TIMESLICE_INTERVAL or ..._PARTITION_COUNT, ..._MEMORY and
// ..._COMPUTE where capacity was consumed, GPU_DEVICE_<name>_RESOURCE_CLAIM, DRA_ADMIN_ACCESS. <id> is the device's
// name without "gpu-", in capitals, with '_' for '-'. A share has its device and capacity once more under names with
// its share ID (GPU_DEVICE_<id>_SHARE_<share id>...), because two shares of one device in one container would
// overwrite each other's.
// admin: the claim has admin access to some device. Pure.
std::vector<std::string> DeviceEnvironment(const dra::AllocatedDevice& device,
                                           const CardSetting& setting, const std::string& claim_uid,
                                           bool admin);

}  // namespace fake
