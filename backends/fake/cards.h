#pragma once

#include <cstdint>
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
  bool configurable =
      true;           // false: an old model without time slices and partitions; of a GPU only
  std::string error;  // not empty: cannot be looked at, with this reason
};

// One published device and the card behind it: a GPU, a NIC, a NUMA node.
struct CardDevice {
  std::string name;  // "gpu-3", or "gpu-3-full", "gpu-3-partition-0" where cards have partitions
  std::string card;  // "gpu-3"
  std::string uuid;  // of the card
  std::string identity;    // of the device: the card's uuid, with "/partition-0" for a part of it
  std::string shape = {};  // "whole" or "partition"; "" where cards have but one shape
  nlohmann::json device = {};
};

struct CardInventory {
  std::vector<CardDevice> devices;
  std::vector<nlohmann::json> counter_sets;
  std::vector<std::pair<std::string, std::string>> errors;  // card, why it could not be looked at
};

// The serial number of the card in a slot, beginning with "<kind>-": the same on every call, another for each node,
// slot and replacement.
std::string CardUuid(const std::string& kind, const std::string& node_name, const std::string& card,
                     int64_t replaced);

// The number of a name like "nic-3" with the prefix "nic-"; nullopt unless it is a decimal number without sign or
// leading zero, below `end`.
std::optional<int64_t> SlotOf(const std::string& prefix, const std::string& name, int64_t end);

}  // namespace fake
