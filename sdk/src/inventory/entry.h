#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "dra/base/json.h"
#include "dra/inventory/inventory.h"
#include "nlohmann/json.hpp"

namespace dra::inventory {

// What the inventory knows of one device; the published picture is made from it.
struct Entry {
  std::string pool;
  std::string name;
  std::string identity;
  std::vector<loader::ExclusionKey> exclusion_keys;
  Json base;  // as discovered and repaired, without health taints
  bool held = false;
  bool gone = false;
  loader::DeviceHealth health;
  absl::Time health_since;
  // Unhealthy until it is reported healthy: "unknown" is no evidence that a fault has gone.
  bool sick = false;
  std::string fault_class;                        // of the fault that made it sick
  std::map<std::string, absl::Time> taint_times;  // when each taint that stands now was first seen
  bool dirty = true;                              // something above changed since Publish
  std::shared_ptr<const Device> published;        // made by Publish
  std::vector<Finding> findings;                  // made by Publish: why it is withheld
};

// Takes a health report. Returns true if anything changed.
bool SetHealth(Entry* entry, const loader::DeviceHealth& health, absl::Time now);

// Renews entry->published and entry->findings from the rest; keeps the object if it says the same.
void Publish(const Options& options, const loader::ServerFields& fields, absl::Time now,
             Entry* entry);

}  // namespace dra::inventory
