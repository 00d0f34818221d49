#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dra/backend/backend.h"
#include "hardware.h"
#include "nlohmann/json.hpp"

namespace fake {

constexpr char kGpuConfigApiVersion[] = "gpu.resource.example.com/v1alpha1";
constexpr char kGpuConfigKind[] = "GpuConfig";

// Reads the opaque parameters of a claim or class:
//   {"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "GpuConfig",
//    "sharing": {"strategy": "TimeSlicing",       "timeSlicingConfig": {"interval": "Default|Short|Medium|Long"}}
//    or         {"strategy": "SpacePartitioning", "spacePartitioningConfig": {"partitionCount": 0 or more}}}
// Without `sharing`: time slicing. Without the strategy's own object: the interval "Default", or one partition. An
// object that is there but empty keeps what the public example driver makes of it: no interval is refused, no count
// is 0. Throws dra::BackendError, DRA_INVALID_ARGUMENT: unknown apiVersion or kind (with the known one), unknown
// fields, wrong types, values out of range, the other strategy's object; each with its path below `path`.
CardSetting DecodeGpuConfig(const nlohmann::json& parameters, const std::string& path);

// The setting that the configurations of one device ask for, lowest precedence first; nullopt if there are none.
// Every configuration is read, also one that another outranks. merge false: the highest counts as a whole. merge true:
// field by field the highest counts; who names a strategy drops the other strategy's object of those below.
std::optional<CardSetting> ResolveGpuConfigs(const std::vector<dra::DeviceConfig>& configs,
                                             bool merge);

// Reads one configuration alone, which with `merge` may leave to another what it needs.
void ValidateGpuConfig(const nlohmann::json& parameters, bool merge);

// The JSON schema of the parameters, for the manifest.
nlohmann::json GpuConfigSchema();

}  // namespace fake
