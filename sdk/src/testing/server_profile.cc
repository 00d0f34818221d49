#include "dra/testing/server_profile.h"

namespace dra::testing {
namespace {

struct GateDefault {
  absl::string_view name;
  int first_minor;    // the gate exists since
  int enabled_since;  // 0: off in all minors known
};

// Source: the gate tables of Kubernetes 1.34 to 1.37.
constexpr int kAlways = 34;
constexpr int kNever = 0;
const GateDefault kGates[] = {
    {"DynamicResourceAllocation", 34, kAlways},
    {"DRAAdminAccess", 34, kAlways},
    {"DRAPrioritizedList", 34, kAlways},
    {"DRAResourceClaimDeviceStatus", 34, kAlways},
    {"DRAResourceClaimGranularStatusAuthorization", 36, 36},
    {"DRADeviceTaints", 34, 36},
    {"DRAPartitionableDevices", 34, 36},
    {"DRAConsumableCapacity", 34, 36},
    {"DRADeviceBindingConditions", 34, 36},
    {"DRAExtendedResource", 34, 36},
    {"DRAListTypeAttributes", 36, kNever},
    {"DRANodeAllocatableResources", 37, kNever},
    {"DRAPartitionableDevicesType", 37, kNever},
    {"DRAOptionalNodeOperations", 37, kNever},
    {"DRADeviceCompatibilityGroups", 37, kNever},
    {"ResourceHealthStatus", 34, 36},
};

}  // namespace

bool ServerProfile::Enabled(absl::string_view gate) const {
  for (const GateDefault& known : kGates) {
    if (known.name != gate) continue;
    if (minor < known.first_minor) return false;
    if (const auto set = gates.find(std::string(gate)); set != gates.end()) return set->second;
    return known.enabled_since != kNever && minor >= known.enabled_since;
  }
  return false;
}

}  // namespace dra::testing
