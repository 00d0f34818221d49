#include "net_config.h"

#include <limits>

#include "config_layers.h"
#include "dra/backend/configs.h"
#include "dra/backend/json_reader.h"

namespace fake {

using nlohmann::json;

namespace {

// The example driver refuses a burst of 2^32 - 1 bytes and more.
constexpr int64_t kMaxBurstBits = 8LL * std::numeric_limits<uint32_t>::max() - 1;

BandwidthBurst ReadNetConfig(dra::JsonReader& reader) {
  BandwidthBurst burst;
  reader.OptionalObject("bwBurst", [&](dra::JsonReader& entry) {
    burst.ingress = entry.Optional("ingressBurst", 0, kMaxBurstBits).value_or(0);
    burst.egress = entry.Optional("egressBurst", 0, kMaxBurstBits).value_or(0);
  });
  return burst;
}

}  // namespace

BandwidthBurst DecodeNetConfig(const json& parameters, const std::string& path) {
  const dra::ConfigKinds<BandwidthBurst> kinds(
      {{kNetConfigApiVersion, kNetConfigKind, ReadNetConfig}});
  return kinds.Read(parameters, path);
}

BandwidthBurst ResolveNetConfigs(const std::vector<dra::DeviceConfig>& configs, bool merge) {
  return DecodeHighest(merge ? dra::MergeConfigs(configs) : configs, DecodeNetConfig)
      .value_or(BandwidthBurst());
}

json NetConfigSchema() {
  const json burst = {{"type", "integer"}, {"minimum", 0}, {"maximum", kMaxBurstBits}};
  return {{"type", "object"},
          {"required", {"apiVersion", "kind"}},
          {"additionalProperties", false},
          {"properties",
           {{"apiVersion", {{"const", kNetConfigApiVersion}}},
            {"kind", {{"const", kNetConfigKind}}},
            {"bwBurst",
             {{"type", "object"},
              {"additionalProperties", false},
              {"properties", {{"ingressBurst", burst}, {"egressBurst", burst}}}}}}}};
}

}  // namespace fake
