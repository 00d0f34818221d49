#include "gpu_config.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "config_layers.h"
#include "dra/backend/configs.h"
#include "dra/backend/json_reader.h"

namespace fake {

using nlohmann::json;

namespace {

constexpr char kTimeSlicing[] = "TimeSlicing";
constexpr char kSpacePartitioning[] = "SpacePartitioning";

// The member of `sharing` that does not go with the strategy.
const char* OtherObject(const std::string& strategy) {
  return strategy == kTimeSlicing ? "spacePartitioningConfig" : "timeSlicingConfig";
}

CardSetting ReadGpuConfig(dra::JsonReader& reader) {
  CardSetting setting;
  reader.OptionalObject("sharing", [&](dra::JsonReader& sharing) {
    setting.strategy = sharing.Enum<const char*>(
        "strategy", {{kTimeSlicing, kTimeSlicing}, {kSpacePartitioning, kSpacePartitioning}});
    const char* other = OtherObject(setting.strategy);
    if (sharing.Has(other)) {
      sharing.Refuse(other,
                     "does not go with the strategy \"" + setting.strategy + "\": remove it");
    }
    sharing.OptionalObject("timeSlicingConfig", [&](dra::JsonReader& slicing) {
      setting.interval = slicing.Enum<const char*>(
          "interval",
          {{"Default", "Default"}, {"Short", "Short"}, {"Medium", "Medium"}, {"Long", "Long"}});
    });
    sharing.OptionalObject("spacePartitioningConfig", [&](dra::JsonReader& partitioning) {
      setting.partition_count =
          partitioning.Optional("partitionCount", 0, std::numeric_limits<int32_t>::max())
              .value_or(0);
    });
  });
  return setting;
}

json* Sharing(json& parameters) {
  if (!parameters.is_object()) return nullptr;
  const auto sharing = parameters.find("sharing");
  return sharing != parameters.end() && sharing->is_object() ? &*sharing : nullptr;
}

std::vector<dra::DeviceConfig> MergeLayers(std::vector<dra::DeviceConfig> layers) {
  for (size_t i = 1; i < layers.size(); ++i) {
    const json* sharing = Sharing(layers[i].parameters);
    if (sharing == nullptr || !sharing->contains("strategy")) continue;
    const json& strategy = (*sharing)["strategy"];
    if (!strategy.is_string()) continue;
    for (size_t below = 0; below < i; ++below) {
      json* outranked = Sharing(layers[below].parameters);
      if (outranked != nullptr) outranked->erase(OtherObject(strategy.get<std::string>()));
    }
  }
  return dra::MergeConfigs(layers);
}

}  // namespace

CardSetting DecodeGpuConfig(const json& parameters, const std::string& path) {
  const dra::ConfigKinds<CardSetting> kinds(
      {{kGpuConfigApiVersion, kGpuConfigKind, ReadGpuConfig}});
  return kinds.Read(parameters, path);
}

std::optional<CardSetting> ResolveGpuConfigs(const std::vector<dra::DeviceConfig>& configs,
                                             bool merge) {
  return DecodeHighest(merge ? MergeLayers(configs) : configs, DecodeGpuConfig);
}

void ValidateGpuConfig(const json& parameters, bool merge) {
  json whole = parameters;
  json* sharing = merge ? Sharing(whole) : nullptr;
  if (sharing != nullptr && !sharing->contains("strategy")) {
    (*sharing)["strategy"] =
        sharing->contains("spacePartitioningConfig") ? kSpacePartitioning : kTimeSlicing;
  }
  DecodeGpuConfig(whole, "parameters");
}

json GpuConfigSchema() {
  return json::parse(R"({
    "type": "object",
    "required": ["apiVersion", "kind"],
    "additionalProperties": false,
    "properties": {
      "apiVersion": {"const": "gpu.resource.example.com/v1alpha1"},
      "kind": {"const": "GpuConfig"},
      "sharing": {
        "type": "object",
        "required": ["strategy"],
        "additionalProperties": false,
        "properties": {
          "strategy": {"enum": ["TimeSlicing", "SpacePartitioning"]},
          "timeSlicingConfig": {
            "type": "object",
            "required": ["interval"],
            "additionalProperties": false,
            "properties": {"interval": {"enum": ["Default", "Short", "Medium", "Long"]}}
          },
          "spacePartitioningConfig": {
            "type": "object",
            "additionalProperties": false,
            "properties": {"partitionCount": {"type": "integer", "minimum": 0, "maximum": 2147483647}}
          }
        }
      }
    }
  })");
}

}  // namespace fake
