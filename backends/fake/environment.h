#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dra/backend/backend.h"

namespace fake {

// Capitals and digits; every run of other characters becomes one '_'.
std::string EnvironmentName(const std::string& text);

// What the allocation consumed of a capacity, published as "memory" or "<driver>/memory"; "" if nothing.
std::string Consumed(const dra::AllocatedDevice& device, const std::string& capacity);

// The environment variables of one allocated device, with the names that containers of the public example driver get.
// They begin with <kind>_DEVICE_<id>; kind is the profile's name in capitals, and <id> the device's name without
// `prefix` ("gpu-"), in capitals, with '_' for '-'. Each device has <kind>_DEVICE_<name>_RESOURCE_CLAIM and
// DRA_ADMIN_ACCESS; the rest is added. Pure.
class DeviceEnvironment {
 public:
  // admin: the claim has admin access to some device.
  DeviceEnvironment(const std::string& kind, const std::string& prefix,
                    const dra::AllocatedDevice& device, const std::string& claim_uid, bool admin);

  // <kind>_DEVICE_<id>=<value>
  void AddSelf(const std::string& value);
  // <kind>_DEVICE_<id>_<name>=<value>
  void Add(const std::string& name, const std::string& value);
  // The same for what is this allocation's own, unless the value is "". A share has it once more, as
  // <kind>_DEVICE_<id>_SHARE_<share id>_<name>, because two shares of one device in one container would overwrite
  // each other's.
  void AddOfShare(const std::string& name, const std::string& value);

  const std::vector<std::string>& variables() const { return variables_; }

 private:
  std::string stem_;
  std::string share_;
  std::vector<std::string> variables_;
};

// What each container of a claim gets once: the names of the node and of the driver.
std::vector<std::string> ClaimEnvironment(const std::string& node_name,
                                          const dra::PrepareRequest& request);

bool HasAdminAccess(const dra::PrepareRequest& request);

}  // namespace fake
