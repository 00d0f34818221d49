#include "claim_plan.h"

#include <linux/if_arp.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "dra/backend/configs.h"
#include "namespace.h"
#include "pod/claim_folder.h"

namespace rdma {

using dra::BackendError;
using dra::Json;

namespace {

constexpr uint32_t kMainTable = 254;
constexpr uint8_t kKernelProtocol = 2;  // RTPROT_KERNEL: made by the addresses themselves
constexpr uint8_t kScopeUniverse = 0;
constexpr size_t kMaxStatusIps = 16;  // resource.k8s.io/v1 NetworkDeviceData

std::string Named(const WantedNic& wanted) {
  return "device " + wanted.allocated->name() + " of request " + wanted.allocated->request();
}

[[noreturn]] void Refuse(const WantedNic& wanted, const std::string& text) {
  throw BackendError(DRA_INVALID_ARGUMENT, Named(wanted) + ": " + text);
}

// The pod that the claim is for.
std::string PodUid(const Json& reserved_for) {
  for (const Json& consumer : reserved_for) {
    if (consumer.value("resource", "") == "pods" && consumer.value("apiGroup", "").empty()) {
      return consumer.value("uid", "");
    }
  }
  return "";
}

Json Condition(const char* type, const char* status, const std::string& reason,
               const std::string& message) {
  return {{"type", type}, {"status", status}, {"reason", reason}, {"message", message}};
}

// What CDI's netDevices does: it moves and renames. It is refused what it would pass over in silence.
void CheckNetDevices(const WantedNic& wanted) {
  NetworkConfig rest = wanted.config;
  rest.interface.name.clear();
  if (rest.WantsInterface()) {
    Refuse(
        wanted,
        "the driver is configured with attach: netDevices, where the container runtime moves the "
        "interface and can only rename it: remove everything but interface.name from the "
        "configuration, or have the driver configured with attach: hook");
  }
}

void CheckMtu(const WantedNic& wanted, const KernelNetwork& network) {
  const Nic& nic = *wanted.nic;
  if (!wanted.config.interface.mtu || nic.pf_interface.empty()) return;
  for (const Link& link : network.links) {
    if (link.name != nic.pf_interface || *wanted.config.interface.mtu <= link.mtu) continue;
    Refuse(wanted, "interface.mtu " + std::to_string(*wanted.config.interface.mtu) +
                       " is above that of its physical function " + link.name + ", " +
                       std::to_string(link.mtu));
  }
}

// Where a claim asks for none, the host's own go along, as in dranet.
void FillFromHost(Attachment& attachment) {
  NetworkConfig& config = attachment.config;
  const HostInterface& home = attachment.home;
  const bool own_addresses = !config.interface.addresses.empty();
  if (!own_addresses) {
    for (const InterfaceAddress& address : home.addresses) {
      config.interface.addresses.push_back(address.cidr);
    }
  }
  if (config.routes.empty() && !own_addresses) {
    for (const Route& route : home.routes) {
      config.routes.push_back({route.destination, route.gateway, route.source, route.scope,
                               route.table == kMainTable ? 0 : route.table, route.metric});
    }
    if (config.rules.empty()) {
      for (const Rule& rule : home.rules) {
        // One for all traffic says its IP version by its source.
        const bool all = rule.source.empty() && rule.destination.empty();
        const char* everywhere = rule.family == AF_INET6 ? "::/0" : "0.0.0.0/0";
        config.rules.push_back(
            {rule.priority, all ? everywhere : rule.source, rule.destination, rule.table});
      }
    }
  }
  if (config.neighbors.empty() && !own_addresses) {
    for (const Neighbour& neighbour : home.neighbours) {
      config.neighbors.push_back({neighbour.destination, neighbour.address});
    }
  }
}

}  // namespace

NetworkConfig ConfigOf(const dra::AllocatedDevice& device) {
  std::vector<dra::DeviceConfig> configs = device.configs;
  for (dra::DeviceConfig& config : configs) {
    ReadNetworkConfig(config.parameters, "parameters");  // each for itself: an error is that one's
    // dranet's form is the same configuration.
    config.parameters["apiVersion"] = kConfigApiVersion;
    config.parameters["kind"] = kConfigKind;
  }
  const std::vector<dra::DeviceConfig> merged = dra::MergeConfigs(configs);
  return merged.empty() ? NetworkConfig()
                        : ReadNetworkConfig(merged.back().parameters, "parameters");
}

std::string NameInPlan(const dra::AllocatedDevice& device) {
  return device.share_id().empty() ? device.name() : device.name() + "/" + device.share_id();
}

HostInterface HostInterfaceOf(const Nic& nic, const KernelNetwork& network) {
  const Link& link = nic.netdev->link;
  HostInterface home;
  home.name = link.name;
  home.alternative_names = link.alternative_names;
  home.alias = link.alias;
  home.flags = link.flags;
  home.index = link.index;
  home.kind = link.kind;
  home.pci_address = nic.pci_address;
  home.address = link.address;
  home.permanent_address = link.permanent_address;
  home.mtu = link.mtu;
  home.up = link.up;
  for (const XdpProgram& program : link.xdp) home.xdp_programs.push_back(program.id);
  home.gso_max_size = link.gso_max_size;
  home.gro_max_size = link.gro_max_size;
  home.gso_ipv4_max_size = link.gso_ipv4_max_size;
  home.gro_ipv4_max_size = link.gro_ipv4_max_size;
  for (const InterfaceAddress& address : network.addresses) {
    if (address.index == link.index && address.scope == kScopeUniverse && address.permanent) {
      home.addresses.push_back(address);
    }
  }
  std::set<uint32_t> tables;
  for (const Route& route : network.routes) {
    if (route.index != link.index || route.protocol == kKernelProtocol) continue;
    home.routes.push_back(route);
    if (route.table != kMainTable) tables.insert(route.table);
  }
  for (const Rule& rule : network.rules) {
    if (tables.contains(rule.table)) home.rules.push_back(rule);
  }
  for (const Neighbour& neighbour : network.neighbours) {
    if (neighbour.index == link.index) home.neighbours.push_back(neighbour);
  }
  return home;
}

Plan MakePlan(const dra::PrepareRequest& request, const std::vector<WantedNic>& wanted,
              const KernelNetwork& network, const Options& options) {
  Plan plan;
  plan.claim_uid = request.claim.uid;
  plan.pod_uid = PodUid(request.reserved_for);
  plan.boot_id = ClaimFolder::BootId();
  std::tie(plan.host_device, plan.host_inode) =
      NetworkNamespace::Open("/proc/thread-self/ns/net").Identity();
  std::map<std::string, std::string> names;  // in the pod -> device
  for (const WantedNic& want : wanted) {
    const Nic& nic = *want.nic;
    const NetworkConfig& config = want.config;
    if (want.allocated->admin_access()) {
      if (config.WantsInterface()) {
        Refuse(want, "admin access only looks: it is given no interface; remove the configuration");
      }
      continue;
    }
    const bool macvlan = !config.interface.macvlan.empty();
    if (!nic.netdev) {
      if (config.WantsInterface()) {
        Refuse(want,
               "it has no network interface: remove interface, routes, rules, neighbors and "
               "ethtool from its configuration");
      }
      if (network.rdma_mode == RdmaNamespaceMode::kExclusive && nic.rdma &&
          options.attach != AttachBy::kNone) {
        Attachment attachment;
        attachment.device = NameInPlan(*want.allocated);
        attachment.request = want.allocated->request();
        attachment.home.pci_address = nic.pci_address;
        attachment.rdma_device = nic.rdma->name;
        plan.attachments.push_back(std::move(attachment));
      }
      continue;
    }
    if (options.attach == AttachBy::kNone && config.WantsInterface()) {
      Refuse(want,
             "the driver is configured with attach: none and leaves interfaces on the host: "
             "remove everything but rdma from its configuration");
    }
    if (want.shared && !macvlan) {
      if (config.WantsInterface()) {
        Refuse(want,
               "it is shared, and its interface stays on the host: ask for "
               "interface.macvlan, or remove everything but rdma from its configuration");
      }
      if (!nic.rdma) {
        Refuse(want,
               "it is shared and has no RDMA device, so that a pod would get nothing: ask for "
               "interface.macvlan");
      }
      continue;
    }
    if (options.attach == AttachBy::kNone) continue;
    if (options.attach == AttachBy::kNetDevices) CheckNetDevices(want);
    if (macvlan && nic.netdev->link.type != ARPHRD_ETHER) {
      Refuse(want, "interface.macvlan: only Ethernet can have one");
    }
    if (!macvlan && KindOf(nic) == "bond") {
      throw BackendError(DRA_FAILED_PRECONDITION,
                         Named(want) +
                             ": the kernel does not let a bond leave the host's network "
                             "namespace: ask for interface.macvlan");
    }
    CheckMtu(want, network);
    Attachment attachment;
    attachment.device = NameInPlan(*want.allocated);
    attachment.request = want.allocated->request();
    attachment.kind = macvlan ? AttachKind::kMacvlan : AttachKind::kMove;
    attachment.home = HostInterfaceOf(nic, network);
    attachment.pod_name =
        config.interface.name.empty() ? attachment.home.name : config.interface.name;
    attachment.config = config;
    if (!macvlan) FillFromHost(attachment);
    if (!macvlan && nic.rdma && network.rdma_mode == RdmaNamespaceMode::kExclusive) {
      attachment.rdma_device = nic.rdma->name;
    }
    if (attachment.pod_name == "eth0" || attachment.pod_name == "lo") {
      Refuse(want, "the pod has an interface " + attachment.pod_name +
                       " of its own: give this one another by interface.name");
    }
    const auto [other, first] = names.emplace(attachment.pod_name, attachment.device);
    if (!first) {
      Refuse(want, "interface " + attachment.pod_name + " is the name of device " + other->second +
                       " already: give each its own by interface.name");
    }
    plan.attachments.push_back(std::move(attachment));
  }
  if (plan.pod_uid.empty() && !plan.attachments.empty()) {
    throw BackendError(DRA_FAILED_PRECONDITION,
                       "claim " + request.claim.namespace_name + "/" + request.claim.name +
                           ": its status.reservedFor names no pod, so that nobody can be told "
                           "whose network namespace its interfaces may go to");
  }
  return plan;
}

Json StatusOf(const AttachedInterface& attached) {
  Json conditions = Json::array(
      {Condition("Ready", "True", "NetworkDeviceReady", "in the pod as " + attached.pod_name)});
  if (attached.pod_name.empty()) {
    conditions = Json::array({Condition("Ready", "True", "RDMAOnlyDeviceReady", "in the pod")});
    return {{"conditions", std::move(conditions)}};
  }
  conditions.push_back(Condition("NetworkReady", "True", "NetworkReady", ""));
  Json data = {{"interfaceName", attached.pod_name}};
  if (!attached.address.empty()) data["hardwareAddress"] = attached.address;
  std::vector<std::string> ips = attached.ips;
  if (ips.size() > kMaxStatusIps) ips.resize(kMaxStatusIps);
  if (!ips.empty()) data["ips"] = ips;
  return {{"conditions", std::move(conditions)}, {"networkData", std::move(data)}};
}

Json FailedStatusOf(const AttachState& state) {
  Json conditions = Json::array({Condition("Ready", "False", "AttachFailed", state.error)});
  // The first containers of the pod have it still.
  if (state.phase == AttachState::Phase::kAttached) return {{"conditions", std::move(conditions)}};
  conditions.push_back(Condition("NetworkReady", "False", "AttachFailed", ""));
  return {{"conditions", std::move(conditions)}, {"networkData", nullptr}};
}

Json WaitingStatusOf(const Attachment& attachment) {
  const std::string& interface = attachment.home.name;
  return {{"conditions",
           Json::array({Condition("Ready", "False", "WaitingForPod",
                                  (interface.empty() ? attachment.rdma_device : interface) +
                                      " goes to the pod with its first container that uses it")})}};
}

Json ReadyStatusOf(const Nic& nic) {
  return {{"conditions",
           Json::array({Condition("Ready", "True", nic.rdma ? "RDMAOnlyDeviceReady" : "Prepared",
                                  "its interface stays on the host")})}};
}

}  // namespace rdma
