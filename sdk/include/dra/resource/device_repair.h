#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra::resource {

// One thing that was wrong with a device and what was done about it.
struct Problem {
  std::string field;    // "attributes[driverVersion]"; "" for the whole device
  std::string value;    // what stood there, cut to 128 bytes
  std::string problem;  // the rule and the limit
  std::string action;   // "repaired to ...", "attribute dropped", "device dropped"
  friend bool operator==(const Problem&, const Problem&) = default;
};

struct RepairedDevice {
  std::optional<Json> device;  // valid; nothing if the device cannot be published
  std::vector<Problem> problems;
};

// Makes a device that a backend reported acceptable to the API server, losing as little as possible. The rules:
//  - A name in the driver's own domain is written without it; if both stand, the qualified one is dropped.
//  - A name that is no QualifiedName costs the attribute, or the capacity.
//  - resource.kubernetes.io carries only pcieRoot, pciBusID and numaNode with well-formed values; the rest, and a
//    numaNode below 0, is dropped.
//  - A version that is no SemVer is repaired by RepairVersion, else dropped. A version is never cut.
//  - A string over 64 bytes is cut at the last UTF-8 boundary within 64 bytes; but a list joined by commas (two or more
//    parts, none with white space inside) is dropped, because a cut list is a wrong list.
//  - A list attribute follows the same rules per item; one item beyond repair drops the attribute.
//  - More than 32 attributes and capacities, or 48 values: the last attributes by name go.
//  - A requestPolicy that breaks its rules is dropped: the capacity is then consumed whole. A bad capacity is dropped,
//    but costs a device with multiple allocations itself, for it would be shared without that limit.
//  - Name, counters, taints, binding conditions, node selection, node allocatable resources: a fault there costs the
//    device, because publishing it without them would offer something else than there is.
// Unknown members, and attributes of an unknown type, pass through untouched. The same input gives the same output.
// Pure; any thread.
RepairedDevice RepairDevice(absl::string_view driver_name, Json device);

// The longest prefix of `text` of at most `limit` bytes that does not cut a UTF-8 sequence.
absl::string_view CutUtf8(absl::string_view text, size_t limit);
bool IsUtf8(absl::string_view text);

}  // namespace dra::resource
