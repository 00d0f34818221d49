#include "environment.h"

#include <algorithm>
#include <cctype>

namespace fake {

std::string EnvironmentName(const std::string& text) {
  std::string name;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    } else if (name.empty() || name.back() != '_') {
      name += '_';
    }
  }
  return name;
}

std::string Consumed(const dra::AllocatedDevice& device, const std::string& capacity) {
  const auto consumed = device.result.find("consumedCapacity");
  if (consumed == device.result.end() || !consumed->is_object()) return "";
  for (const auto& [name, value] : consumed->items()) {
    if (!value.is_string()) continue;
    const size_t slash = name.rfind('/');
    if ((slash == std::string::npos ? name : name.substr(slash + 1)) == capacity) {
      return value.get<std::string>();
    }
  }
  return "";
}

DeviceEnvironment::DeviceEnvironment(const std::string& kind, const std::string& prefix,
                                     const dra::AllocatedDevice& device,
                                     const std::string& claim_uid, bool admin) {
  const std::string name = device.name();
  const std::string id = name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : name;
  stem_ = kind + "_DEVICE_" + EnvironmentName(id);
  if (!device.share_id().empty()) share_ = "SHARE_" + EnvironmentName(device.share_id()) + "_";
  variables_ = {kind + "_DEVICE_" + EnvironmentName(name) + "_RESOURCE_CLAIM=" + claim_uid,
                std::string("DRA_ADMIN_ACCESS=") + (admin ? "true" : "false")};
}

void DeviceEnvironment::AddSelf(const std::string& value) {
  variables_.push_back(stem_ + "=" + value);
}

void DeviceEnvironment::Add(const std::string& name, const std::string& value) {
  variables_.push_back(stem_ + "_" + name + "=" + value);
}

void DeviceEnvironment::AddOfShare(const std::string& name, const std::string& value) {
  if (value.empty()) return;
  Add(name, value);
  if (!share_.empty()) Add(share_ + name, value);
}

std::vector<std::string> ClaimEnvironment(const std::string& node_name,
                                          const dra::PrepareRequest& request) {
  std::vector<std::string> variables = {"KUBERNETES_NODE_NAME=" + node_name};
  for (const dra::AllocatedDevice& device : request.devices) {
    const auto driver = device.result.find("driver");
    if (driver == device.result.end() || !driver->is_string()) continue;
    variables.push_back("DRA_RESOURCE_DRIVER_NAME=" + driver->get<std::string>());
    break;
  }
  return variables;
}

bool HasAdminAccess(const dra::PrepareRequest& request) {
  return std::any_of(request.devices.begin(), request.devices.end(),
                     [](const dra::AllocatedDevice& device) { return device.admin_access(); });
}

}  // namespace fake
