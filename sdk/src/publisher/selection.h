#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dra/inventory/inventory.h"
#include "dra/loader/backend_handle.h"
#include "dra/publisher/planner.h"

// What of the inventory goes to the API server.
namespace dra::publisher {

class Refusals;

using DeviceKey = std::pair<std::string, std::string>;  // pool, device
using HeldDevices = std::set<DeviceKey>;

// Something that is not published as the inventory has it, and the reason of its Event.
struct Report {
  inventory::Finding finding;
  std::string reason;  // "DeviceDropped", "AttributeDropped", "FieldDropped"
};

struct Selection {
  std::vector<WantedPool> pools;
  std::vector<Report> reports;
  size_t devices_dropped = 0;  // in the inventory and not in `pools`
  size_t devices = 0;          // in `pools`
  bool lacks_fields = false;   // a dropped or unknown field changes what is published
};

// Drops the devices that are withheld, that lean on a field the server does not (or not surely) keep, or that were
// refused, and the single attributes and fields that cannot stay. A held device always stays, without what the server
// would not keep. Pure; any thread.
Selection Select(const inventory::Snapshot& snapshot, const HeldDevices& held,
                 const loader::ServerFields& fields, const Refusals& refusals);

// JSON text of a value, cut to 128 bytes, for findings.
std::string ShortText(const Json& value);

}  // namespace dra::publisher
