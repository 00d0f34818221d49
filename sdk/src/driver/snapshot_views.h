#pragma once

#include <vector>

#include "dra/inventory/inventory.h"
#include "dra/kubelet/plugin_server.h"

namespace dra::driver {

// The devices of a snapshot as the kubelet's health stream has them, with those that are gone and lost to a claim. Pure.
std::vector<kubelet::DeviceHealth> KubeletHealth(const inventory::Snapshot& snapshot);

// True if what is published depends on who holds devices: a device is gone, or leans on a field that the server drops. Pure.
bool LeansOnHolders(const inventory::Snapshot& snapshot);

}  // namespace dra::driver
