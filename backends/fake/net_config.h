#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dra/backend/backend.h"
#include "nlohmann/json.hpp"

namespace fake {

constexpr char kNetConfigApiVersion[] = "net.resource.example.com/v1alpha1";
constexpr char kNetConfigKind[] = "NetConfig";

// How much may pass at once beyond the rate, in bits; 0: no limit of its own.
struct BandwidthBurst {
  int64_t ingress = 0;
  int64_t egress = 0;
};

// Reads the opaque parameters of a claim or class:
//   {"apiVersion": "net.resource.example.com/v1alpha1", "kind": "NetConfig",
//    "bwBurst": {"ingressBurst": 0 to 34359738359, "egressBurst": the same}}
// What is absent is 0; the limit is that of the public example driver, less than 4GB. Throws dra::BackendError,
// DRA_INVALID_ARGUMENT: unknown apiVersion or kind (with the known one), unknown fields, wrong types, values out of
// range; each with its path below `path`.
BandwidthBurst DecodeNetConfig(const nlohmann::json& parameters, const std::string& path);

// What the configurations of one device ask for, lowest precedence first. merge false: the highest counts as a whole.
// merge true: field by field the highest counts.
BandwidthBurst ResolveNetConfigs(const std::vector<dra::DeviceConfig>& configs, bool merge);

// The JSON schema of the parameters, for the manifest.
nlohmann::json NetConfigSchema();

}  // namespace fake
