#include "cpu_profile.h"

#include <utility>

namespace fake {

using dra::BackendError;
using dra::Json;

namespace {

constexpr char kNumaPrefix[] = "numa-";
constexpr char kCapacity[] = "cpu";

[[noreturn]] void RefuseConfig(const std::string& path) {
  throw BackendError(DRA_INVALID_ARGUMENT,
                     path + ": profile \"cpu\" takes no configuration: remove it");
}

// How much of the node's own CPUs the device stands for.
void AddMapping(Json& device, const std::string& capacity_key, dra::ServerField support) {
  if (support == dra::ServerField::kKept) {
    device["nodeAllocatableResources"] = {
        {"cpu", {{"mapping", {{"capacityKey", capacity_key}, {"capacityMultiplier", "1"}}}}}};
  } else if (support == dra::ServerField::kDropped) {
    // Kubernetes 1.36 has the field under another name and in another form; it would put in the multiplier itself. A
    // server that knows neither form drops it.
    device["nodeAllocatableResourceMappings"] = {
        {"cpu", {{"capacityKey", capacity_key}, {"allocationMultiplier", "1"}}}};
  }
}

}  // namespace

void DescribeCpu(dra::BackendManifest& manifest) {
  AddAttribute(manifest, {"numaNodeID", "int", "number of the NUMA node"});
}

CpuProfile::CpuProfile(const Options& options, Control& control)
    : StatelessProfile("cpu", kNumaPrefix, options.cpu.numa_nodes, options, control) {}

void CpuProfile::Describe(dra::BackendManifest& manifest) { DescribeCpu(manifest); }

void CpuProfile::ValidateConfig(const Json&) { RefuseConfig("parameters"); }

std::string CpuProfile::Contents() const {
  return std::to_string(options_.cpu.numa_nodes) + " NUMA nodes, numa-0 and up";
}

void CpuProfile::AddCard(int64_t slot, const CardDevice& card, const CardCondition&,
                         const dra::DiscoverRequest& request, CardInventory& inventory) const {
  // The full name: claims ask for "<driver name>/cpu", and the scheduler compares names as they are written.
  const std::string capacity_key = options_.cpu.driver_name + "/" + kCapacity;
  CardDevice node = card;
  node.device = {
      {"name", card.name},
      {"attributes", {{"numaNodeID", {{"int", slot}}}}},
      {"capacity", {{capacity_key, {{"value", std::to_string(options_.cpu.cpus_per_node)}}}}}};
  if (request.multiple_allocations == dra::ServerField::kKept)
    node.device["allowMultipleAllocations"] = true;
  AddMapping(node.device, capacity_key, request.node_allocatable);
  inventory.devices.push_back(std::move(node));
}

std::vector<std::string> CpuProfile::Environment(const dra::AllocatedDevice& device,
                                                 const std::string& claim_uid, bool admin) const {
  if (!device.configs.empty()) RefuseConfig("configuration " + device.configs.back().source);
  DeviceEnvironment environment("CPU", kNumaPrefix, device, claim_uid, admin);
  environment.AddSelf(device.name());
  environment.AddOfShare("CONSUMED_CPU", Consumed(device, kCapacity));
  return environment.variables();
}

}  // namespace fake
