#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace fake {

// What an operator or a test did to one card, from the control file.
struct CardCondition {
  bool absent = false;   // not in the machine any more: its devices are not emitted
  bool lost = false;     // fell off the bus: emitted still, with a NoSchedule taint
  int64_t replaced = 0;  // how often another card was put into this slot: same names, another uuid
  bool configurable = true;  // false: an old model without time slices and partitions
  std::string error;         // not empty: cannot be looked at, with this reason
};

// The layout of the simulated machine.
struct GpuLayout {
  std::string node_name;
  int64_t cards = 8;
  int64_t partitions = 0;  // for each card; 0: cards cannot be partitioned
  bool shared = false;     // devices may be allocated several times
};

// One published device and what stands behind it.
struct GpuDevice {
  std::string name;  // "gpu-3", or "gpu-3-full", "gpu-3-partition-0" where cards have partitions
  std::string card;  // "gpu-3"
  std::string uuid;  // of the card
  std::string identity;  // of the device: the card's uuid, with "/partition-0" for a part of it
  std::string shape;     // "whole" or "partition"
  nlohmann::json device;
};

struct GpuInventory {
  std::vector<GpuDevice> devices;
  std::vector<nlohmann::json> counter_sets;
  std::vector<std::pair<std::string, std::string>> errors;  // card, why it could not be looked at
};

// "gpu-3-partition-0" -> "gpu-3"; nullopt for a name that this profile never publishes for `layout`. A name is a
// function of the slot alone: no card's name changes when another comes or goes.
std::optional<std::string> CardOfDevice(const GpuLayout& layout, const std::string& device);

// The serial number of the card in a slot: the same on every call, another for each node, slot and replacement.
std::string CardUuid(const GpuLayout& layout, const std::string& card, int64_t replaced);

// The machine as devices of resource.k8s.io/v1. ..._kept: the API server keeps those fields. Without counters only
// whole cards are shown, without multiple allocations nothing is shared, and without taints a lost card is not shown,
// because it would look usable. Pure.
GpuInventory Enumerate(const GpuLayout& layout,
                       const std::map<std::string, CardCondition>& conditions, bool counters_kept,
                       bool shares_kept, bool taints_kept);

}  // namespace fake
