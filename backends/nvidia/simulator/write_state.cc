#include <cstdio>

#include "state.h"

namespace nvidia_simulator {
namespace {

std::string IdText(uint32_t id) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", id);
  return text;
}

template <typename T>
void Put(Json& json, const char* name, const std::optional<T>& value) {
  if (value.has_value()) json[name] = *value;
}

Json ProfileJson(const MigProfile& profile) {
  Json json = {{"enum", profile.profile_enum},
               {"id", profile.id},
               {"name", profile.name},
               {"slices", profile.slices},
               {"instances", profile.instances},
               {"memoryMiB", profile.memory_mib},
               {"multiprocessors", profile.multiprocessors},
               {"copyEngines", profile.copy_engines},
               {"decoders", profile.decoders},
               {"encoders", profile.encoders},
               {"jpegs", profile.jpegs},
               {"ofas", profile.ofas},
               {"p2p", profile.p2p},
               {"placements", Json::array()},
               {"verified", profile.verified}};
  for (const Placement& placement : profile.placements) {
    json["placements"].push_back({{"start", placement.start}, {"size", placement.size}});
  }
  if (!profile.unverified.empty()) json["unverified"] = profile.unverified;
  return json;
}

Json InstanceJson(const Gpu& gpu, const MigInstance& instance) {
  Json json = {{"profile", instance.profile}, {"start", instance.start}, {"gi", instance.gi}};
  const MigProfile* profile = gpu.ProfileNamed(instance.profile);
  if (instance.compute.size() == 1 && profile != nullptr &&
      instance.compute[0].slices == profile->slices) {
    json["ci"] = instance.compute[0].ci;
    json["uuid"] = instance.compute[0].uuid;
    return json;
  }
  json["compute"] = Json::array();
  for (const ComputeInstance& compute : instance.compute) {
    json["compute"].push_back({{"ci", compute.ci},
                               {"slices", compute.slices},
                               {"start", compute.start},
                               {"uuid", compute.uuid}});
  }
  return json;
}

Json ProcessJson(const Process& process) {
  Json json = Json::object();
  if (process.pid != 0) json["pid"] = process.pid;
  if (!process.name.empty()) json["name"] = process.name;
  Put(json, "gi", process.gi);
  Put(json, "ci", process.ci);
  if (process.used_bytes != 0) json["usedBytes"] = process.used_bytes;
  return json;
}

Json FaultJson(const Fault& fault) {
  Json json = {{"id", fault.id}, {"function", fault.function}};
  if (!fault.gpu.empty()) json["gpu"] = fault.gpu;
  if (fault.result.has_value()) {
    const std::string name = ReturnName(*fault.result);
    json["return"] = ReturnCode(name).has_value() ? Json(name) : Json(*fault.result);
  }
  if (fault.hang_seconds > 0) json["hangSeconds"] = fault.hang_seconds;
  Put(json, "times", fault.times);
  return json;
}

Json EventJson(const Event& event) {
  Json json = {{"id", event.id}, {"gpu", event.gpu}};
  const std::string name = EventName(event.type);
  json["type"] = EventType(name).has_value() ? Json(name) : Json(event.type);
  json["value"] = event.value;
  Put(json, "gi", event.gi);
  Put(json, "ci", event.ci);
  return json;
}

}  // namespace

Json ToJson(const Gpu& gpu) {
  Json json = {{"model", gpu.model},
               {"uuid", gpu.uuid},
               {"minor", gpu.minor},
               {"serial", gpu.serial},
               {"name", gpu.name},
               {"brand", gpu.brand},
               {"architecture", gpu.architecture},
               {"computeCapability", gpu.compute_capability}};
  Put(json, "memoryBytes", gpu.memory_bytes);
  json["memoryReservedBytes"] = gpu.memory_reserved_bytes;
  json["memoryUsedBytes"] = gpu.memory_used_bytes;
  json["pci"] = {{"bus_id", gpu.pci.bus_id},
                 {"device_id", IdText(gpu.pci.device_id)},
                 {"subsystem_id", IdText(gpu.pci.subsystem_id)}};
  json["numaNode"] = gpu.numa_node;
  Put(json, "memoryNumaNode", gpu.memory_numa_node);
  json["pcieRoot"] = gpu.pcie_root;
  json["moduleId"] = gpu.module_id;
  json["addressingMode"] = gpu.addressing_mode;
  json["virtualizationMode"] = gpu.virtualization_mode;
  json["migCapable"] = gpu.mig_capable;
  json["migMode"] = gpu.mig_mode;
  if (gpu.mig_mode_pending != gpu.mig_mode) json["migModePending"] = gpu.mig_mode_pending;
  Put(json, "minorAfterMigToggle", gpu.minor_after_mig_toggle);
  json["attachment"] = gpu.attachment;
  json["mig"] = Json::array();
  for (const MigInstance& instance : gpu.mig) json["mig"].push_back(InstanceJson(gpu, instance));
  json["migProfiles"] = Json::array();
  for (const MigProfile& profile : gpu.mig_profiles) {
    json["migProfiles"].push_back(ProfileJson(profile));
  }
  json["fabric"] = {{"state", gpu.fabric.state},
                    {"clusterUuid", gpu.fabric.cluster_uuid},
                    {"cliqueId", gpu.fabric.clique_id},
                    {"status", gpu.fabric.status},
                    {"healthMask", gpu.fabric.health_mask},
                    {"healthSummary", gpu.fabric.health_summary}};
  json["ecc"] = {{"supported", gpu.ecc.supported},
                 {"enabled", gpu.ecc.enabled},
                 {"volatileCorrected", gpu.ecc.volatile_corrected},
                 {"volatileUncorrected", gpu.ecc.volatile_uncorrected},
                 {"aggregateCorrected", gpu.ecc.aggregate_corrected},
                 {"aggregateUncorrected", gpu.ecc.aggregate_uncorrected}};
  json["remappedRows"] = {{"supported", gpu.remapped_rows.supported},
                          {"corrected", gpu.remapped_rows.corrected},
                          {"uncorrected", gpu.remapped_rows.uncorrected},
                          {"pending", gpu.remapped_rows.pending},
                          {"failed", gpu.remapped_rows.failed}};
  json["retiredPagesSupported"] = gpu.retired_pages_supported;
  json["retiredPagesPending"] = gpu.retired_pages_pending;
  json["persistenceMode"] = gpu.persistence_mode;
  json["computeMode"] = gpu.compute_mode;
  json["lost"] = gpu.lost;
  if (gpu.recovery_action.has_value()) {
    const std::string name = RecoveryActionName(*gpu.recovery_action);
    json["recoveryAction"] =
        RecoveryAction(name).has_value() ? Json(name) : Json(*gpu.recovery_action);
  }
  json["processes"] = Json::array();
  for (const Process& process : gpu.processes) json["processes"].push_back(ProcessJson(process));
  if (!gpu.unverified.empty()) json["unverified"] = gpu.unverified;
  return json;
}

Json ToJson(const State& state) {
  Json json;
  json["driver"] = {{"version", state.driver.version},
                    {"cuda", state.driver.cuda},
                    {"nvml", state.driver.nvml},
                    {"kernelModule", state.driver.kernel_module},
                    {"loaded", state.driver.loaded}};
  json["visibility"] = state.visibility;
  json["hostDevRoot"] = state.host_dev_root;
  json["gpus"] = Json::array();
  for (const Gpu& gpu : state.gpus) json["gpus"].push_back(ToJson(gpu));
  json["nextFault"] = state.next_fault;
  json["faults"] = Json::array();
  for (const Fault& fault : state.faults) json["faults"].push_back(FaultJson(fault));
  json["nextEvent"] = state.next_event;
  json["events"] = Json::array();
  for (const Event& event : state.events) json["events"].push_back(EventJson(event));
  if (!state.cap_minors.empty()) json["capMinors"] = state.cap_minors;
  return json;
}

}  // namespace nvidia_simulator
