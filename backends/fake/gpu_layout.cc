#include "gpu_layout.h"

#include <utility>

namespace fake {
namespace {

using nlohmann::json;

constexpr int64_t kMemoryBytes = 80LL << 30;
constexpr int64_t kCompute = 100;
constexpr char kCardPrefix[] = "gpu-";

// "80Gi" where that is exact, else with the next smaller unit, as Kubernetes writes binary quantities.
std::string BinaryQuantity(int64_t bytes) {
  static constexpr const char* kUnits[] = {"", "Ki", "Mi", "Gi"};
  int unit = 0;
  while (unit < 3 && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + kUnits[unit];
}

// A capacity; where devices are shared any multiple of `step` from one step to the whole may be asked for. The
// default is the whole: a claim that asks for nothing in particular gets the device for itself.
json Capacity(const std::string& value, const std::string& step, bool shared) {
  json capacity = {{"value", value}};
  if (shared) {
    capacity["requestPolicy"] = {{"default", value},
                                 {"validRange", {{"min", step}, {"step", step}, {"max", value}}}};
  }
  return capacity;
}

json MakeDevice(const std::string& name, json attributes, int64_t memory, int64_t compute,
                bool shared) {
  json device = {{"name", name},
                 {"attributes", std::move(attributes)},
                 {"capacity",
                  {{"memory", Capacity(BinaryQuantity(memory), "1Gi", shared)},
                   {"compute", Capacity(std::to_string(compute), "1", shared)}}}};
  if (shared) device["allowMultipleAllocations"] = true;
  return device;
}

void AddCounters(json& device, const std::string& card, int64_t memory, int64_t compute) {
  device["consumesCounters"] =
      json::array({{{"counterSet", card + "-counters"},
                    {"counters",
                     {{"memory", {{"value", BinaryQuantity(memory)}}},
                      {"compute", {{"value", std::to_string(compute)}}}}}}});
}

}  // namespace

std::optional<std::string> CardOfGpu(const GpuLayout& layout, const std::string& device) {
  const std::string prefix = kCardPrefix;
  const size_t dash = device.find('-', prefix.size());
  const std::string card = device.substr(0, dash);
  if (!SlotOf(prefix, card, layout.cards)) return std::nullopt;
  const std::string rest = dash == std::string::npos ? "" : device.substr(dash);
  const bool ours = layout.partitions == 0
                        ? rest.empty()
                        : rest == "-full" || SlotOf("-partition-", rest, layout.partitions);
  return ours ? std::optional<std::string>(card) : std::nullopt;
}

void AddGpu(const GpuLayout& layout, int64_t index, const CardDevice& whole, bool configurable,
            bool counters_kept, bool shares_kept, CardInventory& inventory) {
  const bool shared = layout.shared && shares_kept;
  const std::string& card = whole.card;
  json attributes = {{"index", {{"int", index}}},
                     {"uuid", {{"string", whole.uuid}}},
                     {"model", {{"string", kGpuModel}}},
                     {"driverVersion", {{"version", kGpuDriverVersion}}}};
  if (!configurable) attributes["configurable"] = {{"bool", false}};
  if (layout.partitions == 0) {
    CardDevice device = whole;
    device.device = MakeDevice(card, std::move(attributes), kMemoryBytes, kCompute, shared);
    inventory.devices.push_back(std::move(device));
    return;
  }
  if (counters_kept) {
    attributes["partitionable"] = {{"bool", true}};
    inventory.counter_sets.push_back({{"name", card + "-counters"},
                                      {"counters",
                                       {{"memory", {{"value", BinaryQuantity(kMemoryBytes)}}},
                                        {"compute", {{"value", std::to_string(kCompute)}}}}}});
    const int64_t memory = kMemoryBytes / layout.partitions;
    const int64_t compute = kCompute / layout.partitions;
    for (int64_t number = 0; number < layout.partitions; ++number) {
      const std::string suffix = "partition-" + std::to_string(number);
      CardDevice partition = whole;
      partition.name += "-" + suffix;
      partition.identity += "/" + suffix;
      partition.shape = "partition";
      json own = attributes;
      own["partition"] = {{"int", number}};
      partition.device = MakeDevice(partition.name, std::move(own), memory, compute, shared);
      AddCounters(partition.device, card, memory, compute);
      inventory.devices.push_back(std::move(partition));
    }
  }
  CardDevice full = whole;
  full.name += "-full";
  full.shape = "whole";
  attributes["full"] = {{"bool", true}};
  full.device = MakeDevice(full.name, std::move(attributes), kMemoryBytes, kCompute, shared);
  if (counters_kept) AddCounters(full.device, card, kMemoryBytes, kCompute);
  inventory.devices.push_back(std::move(full));
}

}  // namespace fake
