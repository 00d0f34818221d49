#include "net_profile.h"

#include <utility>

#include "net_config.h"
#include "quantity.h"

namespace fake {

using dra::Json;

namespace {

constexpr char kNicPrefix[] = "nic-";

// A capacity; shared NICs give a part of it to each claim, by a policy.
Json Capacity(const char* value, bool shared, Json policy) {
  Json capacity = {{"value", value}};
  if (shared) capacity["requestPolicy"] = std::move(policy);
  return capacity;
}

}  // namespace

void DescribeNet(dra::BackendManifest& manifest) {
  AddAttribute(manifest, {"index", "int", "number of the card's slot", true});
  AddAttribute(manifest, {"uuid", "string", "serial number of the card"});
  AddAttribute(manifest, {"model", "string", "model of the card"});
  AddAttribute(manifest, {"driverVersion", "version", "version of the simulated kernel driver"});
  manifest.config_kinds.push_back({kNetConfigApiVersion, kNetConfigKind, NetConfigSchema()});
}

NetProfile::NetProfile(const Options& options, Control& control)
    : StatelessProfile("net", kNicPrefix, options.net.cards, options, control) {}

void NetProfile::Describe(dra::BackendManifest& manifest) { DescribeNet(manifest); }

void NetProfile::ValidateConfig(const Json& parameters) {
  DecodeNetConfig(parameters, "parameters");
}

void NetProfile::AddCard(int64_t slot, const CardDevice& card, const CardCondition&,
                         const dra::DiscoverRequest& request, CardInventory& inventory) const {
  const bool shared = request.multiple_allocations == dra::ServerField::kKept;
  const Json bandwidth = Capacity(
      "100G", shared,
      {{"default", "1G"}, {"validRange", {{"min", "100M"}, {"max", "100G"}, {"step", "1M"}}}});
  // Each share takes one virtual function, whatever it asks for.
  const Json functions =
      Capacity("100", shared, {{"default", "1"}, {"validValues", Json::array({"1"})}});
  CardDevice nic = card;
  nic.device = {
      {"name", card.name},
      {"attributes",
       {{"index", {{"int", slot}}},
        {"uuid", {{"string", card.uuid}}},
        {"model", {{"string", "LATEST-NET-MODEL"}}},
        {"driverVersion", {{"version", "1.0.0"}}}}},
      {"capacity",
       {{"vfs", functions}, {"ingressBandwidth", bandwidth}, {"egressBandwidth", bandwidth}}}};
  if (shared) nic.device["allowMultipleAllocations"] = true;
  inventory.devices.push_back(std::move(nic));
}

std::vector<std::string> NetProfile::Environment(const dra::AllocatedDevice& device,
                                                 const std::string& claim_uid, bool admin) const {
  const BandwidthBurst burst = ResolveNetConfigs(device.configs, options_.merge_configs);
  DeviceEnvironment environment("NET", kNicPrefix, device, claim_uid, admin);
  if (burst.ingress > 0) environment.AddOfShare("INGRESS_BURST", std::to_string(burst.ingress));
  if (burst.egress > 0) environment.AddOfShare("EGRESS_BURST", std::to_string(burst.egress));
  environment.AddOfShare("INGRESS_RATE", PlainNumber(Consumed(device, "ingressBandwidth")));
  environment.AddOfShare("EGRESS_RATE", PlainNumber(Consumed(device, "egressBandwidth")));
  return environment.variables();
}

}  // namespace fake
