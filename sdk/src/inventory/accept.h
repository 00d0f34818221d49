#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dra/base/json.h"
#include "dra/inventory/inventory.h"
#include "dra/loader/backend_handle.h"
#include "nlohmann/json.hpp"

namespace dra::inventory {

using DeviceKey = std::pair<std::string, std::string>;  // full pool name, device name

// A device of a discovery that may be published.
struct Candidate {
  std::string identity;
  std::vector<loader::ExclusionKey> exclusion_keys;
  Json device;
};

// A discovery with each fault turned into a finding.
struct AcceptedDiscovery {
  std::map<DeviceKey, Candidate> devices;
  std::map<std::string, std::map<std::string, Json>> counter_sets;  // pool -> name -> CounterSet
  std::map<std::string, Json> slice_fields;                         // pool -> object
  std::set<std::string> error_subjects;                             // what could not be looked at
  std::vector<Finding> findings;
};

// "" -> the node's own pool, else "<node>/<suffix>".
std::string PoolName(const Options& options, absl::string_view suffix);

// Repairs, checks and sorts out duplicates. Deterministic: the order of the items plays no part. Pure.
AcceptedDiscovery Accept(const Options& options, const loader::DiscoverResult& result);

// Drops the devices of `accepted` that consume a counter its pool does not have, with a finding each.
void DropWithoutCounters(AcceptedDiscovery* accepted);

// The counter sets `device` consumes.
std::set<std::string> ConsumedCounterSets(const Json& device);

}  // namespace dra::inventory
