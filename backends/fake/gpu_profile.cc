// GpuProfile's devices, and what containers see of a claim; its claims are in gpu_claims.cc, records in
// gpu_reconcile.cc.

#include "gpu_profile.h"

#include <utility>

#include "dra/backend/device_node.h"
#include "environment.h"
#include "files.h"
#include "gpu_config.h"

namespace fake {

using dra::Json;

namespace {

constexpr char kContainerDirectory[] = "/run/fake-gpu";
constexpr char kGpuPrefix[] = "gpu-";

}  // namespace

void DescribeGpu(dra::BackendManifest& manifest) {
  // As the public example driver publishes it; where a card has slots it stays, but it is a position, no identity.
  AddAttribute(manifest, {"index", "int", "number of the card's slot", true});
  AddAttribute(manifest, {"uuid", "string", "serial number of the card"});
  AddAttribute(manifest, {"model", "string", "model of the card"});
  AddAttribute(manifest, {"driverVersion", "version", "version of the simulated kernel driver"});
  AddAttribute(manifest,
               {"configurable", "bool", "false on cards without time slices and partitions"});
  AddAttribute(manifest, {"partitionable", "bool", "the card can be partitioned"});
  AddAttribute(manifest, {"partition", "int", "number of the partition on its card"});
  AddAttribute(manifest,
               {"full", "bool", "the device is a whole card of those that can be partitioned"});
  manifest.config_kinds.push_back({kGpuConfigApiVersion, kGpuConfigKind, GpuConfigSchema()});
}

GpuProfile::GpuProfile(const Options& options, dra::Host host, Hardware& hardware, Control& control,
                       HookLog& log, FaultPoint fault_point)
    : CardProfile("gpu", kGpuPrefix, options.gpu.cards, options, control),
      host_(host),
      hardware_(hardware),
      log_(log),
      fault_point_(std::move(fault_point)) {}

void GpuProfile::Describe(dra::BackendManifest& manifest) { DescribeGpu(manifest); }

void GpuProfile::ValidateConfig(const Json& parameters) {
  ValidateGpuConfig(parameters, options_.merge_configs);
}

void GpuProfile::AddCard(int64_t slot, const CardDevice& card, const CardCondition& condition,
                         const dra::DiscoverRequest& request, CardInventory& inventory) const {
  AddGpu(options_.gpu, slot, card, condition.configurable,
         request.counters == dra::ServerField::kKept,
         request.multiple_allocations == dra::ServerField::kKept, inventory);
}

std::optional<std::string> GpuProfile::CardOf(const std::string& device) const {
  return CardOfGpu(options_.gpu, device);
}

std::string GpuProfile::Contents() const {
  return CardProfile::Contents() +
         (options_.gpu.partitions > 0 ? ", each as -full and -partition-0 and up" : "");
}

Json GpuProfile::DeviceEdits(const dra::AllocatedDevice& device, const std::string& card,
                             const CardSetting& setting, const std::string& claim_uid,
                             bool admin) const {
  DeviceEnvironment environment("GPU", kGpuPrefix, device, claim_uid, admin);
  environment.AddSelf(device.name());
  environment.Add("SHARING_STRATEGY", setting.strategy);
  if (setting.strategy == "SpacePartitioning") {
    environment.Add("PARTITION_COUNT", std::to_string(setting.partition_count));
  } else {
    environment.Add("TIMESLICE_INTERVAL", setting.interval);
  }
  environment.AddOfShare("MEMORY", Consumed(device, "memory"));
  environment.AddOfShare("COMPUTE", Consumed(device, "compute"));
  Json edits = {{"env", environment.variables()}};
  if (!options_.device_nodes) return edits;
  // "gpu-3" is /dev/fake3 in the container. On a real host the null device stands behind it; below a dev root, the
  // file of the same name, as where a vendor's driver container keeps its own /dev.
  const std::string node = "/dev/fake" + card.substr(card.find('-') + 1);
  dra::AddDeviceNode(edits, options_.dev_root.empty() ? "/dev/null" : options_.dev_root + node,
                     {.container_path = node, .permissions = "rw"});
  return edits;
}

Json GpuProfile::ClaimEdits(const dra::HookCall& call, const dra::PrepareRequest& request) const {
  Json edits = {{"env", ClaimEnvironment(options_.node_name, request)}};
  if (!options_.device_nodes) return edits;
  Json names = Json::array();
  for (const dra::AllocatedDevice& device : request.devices) names.push_back(device.name());
  const std::string directory = host_.ClaimDirectory(call);
  ReplaceFile(directory + "/claim.json", Json({{"claim", request.claim.name},
                                               {"namespace", request.claim.namespace_name},
                                               {"devices", names}})
                                                 .dump(2) +
                                             "\n");
  edits["mounts"] =
      Json::array({{{"hostPath", directory},
                    {"containerPath", std::string(kContainerDirectory) + "/" + request.claim.uid},
                    {"options", Json::array({"rbind", "ro", "nosuid", "nodev"})}}});
  return edits;
}

}  // namespace fake
