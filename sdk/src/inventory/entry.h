#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "dra/base/json.h"
#include "dra/inventory/inventory.h"
#include "inventory/fault_state.h"
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
  bool known = false;             // was there at an earlier discovery
  loader::DeviceHealth reported;  // what the backend's health hook said last
  std::string lost;               // not empty: lost to a claim that holds it, with the text
  FaultState fault;               // what came of all its reports, and of the stored note
  loader::DeviceHealth health;    // the worst of all sources: what is shown
  absl::Time health_since;
  std::map<std::string, absl::Time> taint_times;  // when each taint that stands now was first seen
  bool dirty = true;                              // something above changed since Publish
  std::shared_ptr<const Device> published;        // made by Publish
  std::vector<Finding> findings;                  // made by Publish: why it is withheld
};

// Makes entry->health anew from its sources: fault, taints of the backend's own, loss, the last report. True if its state
// changed; marks the entry dirty if anything did.
bool MergeHealth(Entry* entry, absl::Time now);

// What is put on every device at an operator's request.
struct Drain {
  bool on = false;
  absl::Time since;
  friend bool operator==(const Drain&, const Drain&) = default;
};

// Renews entry->published and entry->findings from the rest; keeps the object if it says the same.
void Publish(const Options& options, const loader::ServerFields& fields, const Drain& drain,
             absl::Time now, Entry* entry);

}  // namespace dra::inventory
