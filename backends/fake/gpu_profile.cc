#include "gpu_profile.h"

#include <charconv>
#include <cstdio>
#include <string>

namespace fake {
namespace {

using nlohmann::json;

constexpr int64_t kMemoryBytes = 80LL << 30;
constexpr int64_t kCompute = 100;
constexpr char kModel[] = "LATEST-GPU-MODEL";
constexpr char kDriverVersion[] = "1.0.0";
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

uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

uint64_t Fnv1a(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
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

// A decimal number without sign or leading zero, below `end`.
bool IsIndexBelow(const std::string& text, int64_t end) {
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size() && value >= 0 && value < end &&
         std::to_string(value) == text;
}

}  // namespace

std::optional<std::string> CardOfDevice(const GpuLayout& layout, const std::string& device) {
  const std::string prefix = kCardPrefix;
  if (device.rfind(prefix, 0) != 0) return std::nullopt;
  const size_t dash = device.find('-', prefix.size());
  const std::string index =
      device.substr(prefix.size(), dash == std::string::npos ? dash : dash - prefix.size());
  if (!IsIndexBelow(index, layout.cards)) return std::nullopt;
  const std::string rest = dash == std::string::npos ? "" : device.substr(dash);
  const std::string partition = "-partition-";
  const bool ours =
      layout.partitions == 0
          ? rest.empty()
          : rest == "-full" || (rest.rfind(partition, 0) == 0 &&
                                IsIndexBelow(rest.substr(partition.size()), layout.partitions));
  if (!ours) return std::nullopt;
  return prefix + index;
}

std::string CardUuid(const GpuLayout& layout, const std::string& card, int64_t replaced) {
  const uint64_t seed = Fnv1a(layout.node_name + "/" + card + "/" + std::to_string(replaced));
  // The version and variant bits of a random RFC 4122 UUID.
  const uint64_t high = (Mix(seed) & ~0xf000ULL) | 0x4000ULL;
  const uint64_t low = (Mix(seed + 1) & ~(3ULL << 62)) | (2ULL << 62);
  char text[64];
  std::snprintf(text, sizeof(text), "gpu-%08llx-%04llx-%04llx-%04llx-%012llx",
                static_cast<unsigned long long>(high >> 32),
                static_cast<unsigned long long>((high >> 16) & 0xffff),
                static_cast<unsigned long long>(high & 0xffff),
                static_cast<unsigned long long>(low >> 48),
                static_cast<unsigned long long>(low & 0xffffffffffffULL));
  return text;
}

GpuInventory Enumerate(const GpuLayout& layout,
                       const std::map<std::string, CardCondition>& conditions, bool counters_kept,
                       bool shares_kept, bool taints_kept) {
  GpuInventory inventory;
  const bool shared = layout.shared && shares_kept;
  for (int64_t index = 0; index < layout.cards; ++index) {
    const std::string card = kCardPrefix + std::to_string(index);
    const auto known = conditions.find(card);
    const CardCondition condition = known == conditions.end() ? CardCondition() : known->second;
    if (condition.absent || (condition.lost && !taints_kept)) continue;
    if (!condition.error.empty()) {
      inventory.errors.emplace_back(card, condition.error);
      continue;
    }
    const std::string uuid = CardUuid(layout, card, condition.replaced);
    json attributes = {{"index", {{"int", index}}},
                       {"uuid", {{"string", uuid}}},
                       {"model", {{"string", kModel}}},
                       {"driverVersion", {{"version", kDriverVersion}}}};
    if (!condition.configurable) attributes["configurable"] = {{"bool", false}};

    std::vector<GpuDevice> devices;
    if (layout.partitions == 0) {
      devices.push_back({card, card, uuid, uuid, "whole",
                         MakeDevice(card, attributes, kMemoryBytes, kCompute, shared)});
    } else {
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
          json partition_attributes = attributes;
          partition_attributes["partition"] = {{"int", number}};
          json device = MakeDevice(card + "-" + suffix, std::move(partition_attributes), memory,
                                   compute, shared);
          AddCounters(device, card, memory, compute);
          devices.push_back({card + "-" + suffix, card, uuid, uuid + "/" + suffix, "partition",
                             std::move(device)});
        }
      }
      json whole_attributes = attributes;
      whole_attributes["full"] = {{"bool", true}};
      json device =
          MakeDevice(card + "-full", std::move(whole_attributes), kMemoryBytes, kCompute, shared);
      if (counters_kept) AddCounters(device, card, kMemoryBytes, kCompute);
      devices.push_back({card + "-full", card, uuid, uuid, "whole", std::move(device)});
    }
    for (GpuDevice& device : devices) {
      if (condition.lost) {
        device.device["taints"] =
            json::array({{{"key", "gpu.example.com/lost"}, {"effect", "NoSchedule"}}});
      }
      inventory.devices.push_back(std::move(device));
    }
  }
  return inventory;
}

}  // namespace fake
