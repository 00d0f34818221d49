#include "environment.h"

#include <cctype>
#include <string>
#include <utility>

namespace fake {
namespace {

// Capitals and digits; every run of other characters becomes one '_'.
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

// What the allocation consumed of a capacity, published as "memory" or "<driver>/memory"; "" if nothing.
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

}  // namespace

std::vector<std::string> DeviceEnvironment(const dra::AllocatedDevice& device,
                                           const CardSetting& setting, const std::string& claim_uid,
                                           bool admin) {
  const std::string name = device.name();
  const std::string prefix = "gpu-";
  const std::string id = name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : name;
  const std::string stem = "GPU_DEVICE_" + EnvironmentName(id);
  std::vector<std::string> environment = {
      "GPU_DEVICE_" + EnvironmentName(name) + "_RESOURCE_CLAIM=" + claim_uid,
      std::string("DRA_ADMIN_ACCESS=") + (admin ? "true" : "false"),
      stem + "=" + name,
      stem + "_SHARING_STRATEGY=" + setting.strategy,
  };
  if (setting.strategy == "SpacePartitioning") {
    environment.push_back(stem + "_PARTITION_COUNT=" + std::to_string(setting.partition_count));
  } else {
    environment.push_back(stem + "_TIMESLICE_INTERVAL=" + setting.interval);
  }
  std::vector<std::pair<std::string, std::string>> capacities;
  for (const char* capacity : {"memory", "compute"}) {
    const std::string value = Consumed(device, capacity);
    if (!value.empty()) capacities.emplace_back(EnvironmentName(capacity), value);
  }
  for (const auto& [capacity, value] : capacities) {
    environment.push_back(stem + "_" + capacity + "=" + value);
  }
  if (!device.share_id().empty()) {
    const std::string share = stem + "_SHARE_" + EnvironmentName(device.share_id());
    environment.push_back(share + "=" + name);
    for (const auto& [capacity, value] : capacities) {
      environment.push_back(share + "_" + capacity + "=" + value);
    }
  }
  return environment;
}

}  // namespace fake
