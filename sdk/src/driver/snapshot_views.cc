#include "driver/snapshot_views.h"

#include <memory>

namespace dra::driver {

std::vector<kubelet::DeviceHealth> KubeletHealth(const inventory::Snapshot& snapshot) {
  std::vector<kubelet::DeviceHealth> devices;
  for (const inventory::Pool& pool : snapshot.pools) {
    for (const std::shared_ptr<const inventory::Device>& device : pool.devices) {
      kubelet::Health health = kubelet::Health::kUnknown;
      if (device->health.state == loader::HealthState::kHealthy) health = kubelet::Health::kHealthy;
      if (device->health.state == loader::HealthState::kUnhealthy)
        health = kubelet::Health::kUnhealthy;
      devices.push_back(
          {pool.name, device->name, health, device->health_since, device->health.message});
    }
  }
  for (const auto& [device, text] : snapshot.lost) {
    const auto& [pool, name] = device;
    if (snapshot.FindDevice(pool, name) != nullptr) continue;  // told above
    devices.push_back({pool, name, kubelet::Health::kUnhealthy, snapshot.lost_since, text});
  }
  return devices;
}

bool LeansOnHolders(const inventory::Snapshot& snapshot) {
  for (const inventory::Pool& pool : snapshot.pools) {
    for (const std::shared_ptr<const inventory::Device>& device : pool.devices) {
      if (device->gone || device->leans) return true;
    }
  }
  return false;
}

}  // namespace dra::driver
