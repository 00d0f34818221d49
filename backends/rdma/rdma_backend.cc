#include "rdma_backend.h"

#include <linux/netlink.h>

#include <chrono>
#include <optional>
#include <set>

#include "char_devices.h"
#include "devices.h"
#include "dra/backend/host_path.h"
#include "hook_program.h"
#include "interfaces.h"
#include "pod/give_back.h"

namespace rdma {

using dra::BackendError;
using dra::Json;

namespace {

constexpr char kHeldNote[] = "held";  // a NIC as it was on the host, for the time that a pod has it
constexpr char kUnplugged[] = "unplugged";
constexpr char kHasPlan[] = "plan";  // undo data: the rest is in the claim's directory

// True if the kernel still shows the interface under the number and name that were seen.
bool IsAsSeen(const Nic& nic, const std::optional<Link>& now) {
  return now && now->name == nic.netdev->link.name && now->address == nic.netdev->link.address;
}

const Attachment* AttachmentOf(const Plan& plan, const dra::AllocatedDevice& device) {
  if (device.admin_access()) return nullptr;  // the same claim may have the device as its own too
  for (const Attachment& attachment : plan.attachments) {
    if (attachment.device == NameInPlan(device)) return &attachment;
  }
  return nullptr;
}

// What the scheduler saw is older: DHCP, say, came later than the driver. The host keeps what it needs now.
void CheckNotNeeded(const Nic& nic, const KernelNetwork& network, const Options& options) {
  const Link& link = nic.netdev->link;
  std::string why;
  if (link.master != 0) {
    why = "a port of another interface";
    for (const Link& other : network.links) {
      if (other.index == link.master) why = "a port of " + other.name;
    }
  } else if (!options.allow_default_route && UnderDefaultRoutes(network).contains(link.index)) {
    why = "what the default route leads through";
  }
  if (why.empty()) return;
  throw BackendError(
      DRA_FAILED_PRECONDITION,
      nic.identity + ": interface " + link.name + " is " + why +
          " by now, and stays on the host: delete the pod to have it scheduled anew");
}

std::chrono::milliseconds TimeLeft(const dra::HookCall& call) {
  constexpr std::chrono::milliseconds kMost = std::chrono::seconds(30);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(call.Remaining());
  return std::min(left - left / 8, kMost);  // some is needed to say what went wrong
}

}  // namespace

dra::BackendManifest RdmaBackend::Describe() {
  return {.name = "rdma",
          .version = "0.1.0",
          .attributes = DescribeAttributes(),
          .config_kinds = {{kConfigApiVersion, kConfigKind, NetworkConfigSchema()}},
          .parallel = true,
          // An interface is in one pod's network namespace.
          .shared_claims = false,
          // Admin access to a NIC without RDMA gives nothing to see.
          .no_injection = true};
}

RdmaBackend::RdmaBackend(dra::Host host, const dra::Json& config)
    : host_(host),
      options_(ReadOptions(config)),
      sysfs_(dra::PathBelow(options_.kernel_root, "/sys")),
      pci_names_(options_.kernel_root),
      reporter_(host),
      watch_([host] { host.InventoryChanged(); }) {}

std::shared_ptr<const RdmaBackend::Picture> RdmaBackend::LastPicture() const {
  const std::lock_guard lock(mutex_);
  return picture_;
}

void RdmaBackend::Remember(const NodeNics& node) {
  auto picture = std::make_shared<Picture>();
  for (const Nic& nic : node.nics) picture->nics.emplace(nic.identity, nic);
  const std::lock_guard lock(mutex_);
  picture_ = std::move(picture);
}

NodeNics RdmaBackend::Look(const dra::HookCall& call, const std::vector<std::string>& held) const {
  std::map<std::string, HeldNic> notes;
  for (const std::string& identity : held) {
    const std::optional<std::string> note = host_.NoteGet(identity, kHeldNote);
    if (!note || note->empty()) continue;
    try {
      notes.emplace(identity, HeldNicFromJson(Json::parse(*note)));
    } catch (const std::exception& error) {
      host_.Log(dra::Severity::kWarn,
                identity + ": the note of how it was on the host cannot be read (" + error.what() +
                    "): shown without it until its claim ends");
    }
  }
  return LookAtNode(sysfs_, dra::PathBelow(options_.dev_root, "/dev"), LookAtKernelNetwork(), notes,
                    [&call] { call.Check("look at the node's NICs"); });
}

void RdmaBackend::TellNotOffered(const std::map<std::string, std::string>& reasons) {
  std::vector<std::string> lines;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [identity, reason] : reasons) {
      const auto before = not_offered_.find(identity);
      if (before == not_offered_.end() || before->second != reason) {
        lines.push_back(identity + " is not offered: " + reason);
      }
    }
    for (const auto& [identity, reason] : not_offered_) {
      if (!reasons.contains(identity)) lines.push_back(identity + " is not kept back any more");
    }
    not_offered_ = reasons;
  }
  for (const std::string& line : lines) host_.Log(dra::Severity::kInfo, line);
}

void RdmaBackend::Discover(const dra::HookCall& call, const dra::DiscoverRequest& request,
                           dra::DiscoverSink& sink) {
  const NodeNics node = Look(call, request.held);
  const std::set<std::string> held(request.held.begin(), request.held.end());
  for (const NicProblem& problem : node.problems) {
    sink.AddError(problem.subject, DRA_UNAVAILABLE, problem.message);
  }
  std::vector<Nic> offered;
  std::map<std::string, std::string> not_offered;
  for (const Nic& nic : node.nics) {
    const std::optional<std::string> reason = WhyNotOffered(nic, options_);
    if (reason && !held.contains(nic.identity)) {
      // Every pod has a virtual interface on the host; that nobody asked for it is no news.
      if (!nic.pci_address.empty() || *reason != kNotIncluded) {
        not_offered.emplace(nic.identity, *reason);
      }
      continue;
    }
    offered.push_back(nic);
  }
  for (const Json& set : CounterSetsOf(offered, request)) sink.AddCounterSet("", set);
  for (const Nic& nic : offered) {
    sink.Try(nic.identity,
             [&] { sink.AddDevice(DeviceOf(nic, sysfs_, options_, request, &pci_names_)); });
  }
  Remember(node);
  TellNotOffered(not_offered);
}

void RdmaBackend::ValidateConfig(const dra::HookCall&, const dra::Json& parameters,
                                 const std::string&) {
  ReadNetworkConfig(parameters, "parameters");
}

std::vector<Nic> RdmaBackend::FindNics(const dra::HookCall& call,
                                       const std::vector<dra::AllocatedDevice>& devices,
                                       bool attached) const {
  const auto picture = attached ? nullptr : LastPicture();
  std::optional<NodeNics> node;  // looked at once, and only if that is needed
  std::vector<std::string> held;
  for (const dra::AllocatedDevice& device : devices) {
    if (attached) held.push_back(device.identity);
  }
  const auto find = [&](const std::string& identity) -> Nic {
    if (picture) {
      const auto found = picture->nics.find(identity);
      if (found != picture->nics.end() && found->second.netdev) {
        const Nic& nic = found->second;
        NetlinkSocket route(NETLINK_ROUTE);
        if (IsAsSeen(nic, FindLink(route, nic.netdev->link.index))) return nic;
      }
    }
    if (!node) node = Look(call, held);
    for (const Nic& nic : node->nics) {
      if (nic.identity == identity) return nic;
    }
    for (const NicProblem& problem : node->problems) {
      if (problem.subject == identity)
        throw BackendError(DRA_UNAVAILABLE, identity + ": " + problem.message);
    }
    throw BackendError(
        DRA_NOT_FOUND,
        identity +
            " is not on this node any more: unplugged, bound to another driver, or moved to "
            "another network namespace by somebody else");
  };
  std::vector<Nic> nics;
  for (const dra::AllocatedDevice& device : devices) nics.push_back(find(device.identity));
  return nics;
}

void RdmaBackend::Track(const std::string& claim_uid, const std::string& directory,
                        const Plan& plan, const std::vector<dra::AllocatedDevice>& devices) {
  std::map<std::string, AttachReporter::Device> tracked;
  for (const Attachment& attachment : plan.attachments) {
    for (const dra::AllocatedDevice& device : devices) {
      if (NameInPlan(device) == attachment.device) {
        tracked[attachment.device] = {"", device.name(), device.share_id()};
      }
    }
  }
  if (!tracked.empty()) reporter_.Track(claim_uid, directory, std::move(tracked));
}

dra::PrepareReply RdmaBackend::Prepare(const dra::HookCall& call,
                                       const dra::PrepareRequest& request) {
  const std::string directory = host_.ClaimDirectory(call);
  const ClaimFolder folder(directory);
  // A claim that is prepared again while its pod has the interfaces: they are where they belong.
  std::optional<Plan> plan = folder.ReadPlan();
  const bool attached = plan && folder.OpenPin();
  if (!attached) {
    // What an earlier boot, or a try that failed, has left.
    if (folder.ReadPlanOrClosed()) GiveBack(folder, sysfs_.Path(""), TimeLeft(call));
    plan.reset();
  }

  std::vector<NetworkConfig> configs;
  for (const dra::AllocatedDevice& device : request.devices) configs.push_back(ConfigOf(device));
  std::vector<Nic> nics = FindNics(call, request.devices, attached);
  std::vector<int> indices;
  for (const Nic& nic : nics) {
    if (nic.netdev) indices.push_back(nic.netdev->link.index);
  }
  if (!plan) {
    const KernelNetwork network = LookAtInterfaces(indices);
    std::vector<WantedNic> wanted;
    for (size_t i = 0; i < nics.size(); ++i) {
      for (const Link& link : network.links) {
        if (nics[i].netdev && link.index == nics[i].netdev->link.index) nics[i].netdev->link = link;
      }
      wanted.push_back(
          {&request.devices[i], &nics[i], configs[i], ShareRuleOf(nics[i], options_) != nullptr});
    }
    plan = MakePlan(request, wanted, network, options_);
    for (size_t i = 0; i < nics.size(); ++i) {
      const Attachment* moved = AttachmentOf(*plan, request.devices[i]);
      if (moved == nullptr || moved->kind != AttachKind::kMove) continue;
      CheckNotNeeded(nics[i], network, options_);
      host_.NotePut(nics[i].identity, kHeldNote,
                    ToJson(HeldNic{nics[i].netdev, nics[i].rdma}).dump());
    }
  }

  dra::PrepareReply reply;
  for (size_t i = 0; i < nics.size(); ++i) {
    dra::PreparedDeviceReply prepared;
    if (nics[i].rdma) {
      prepared.edits = CharDeviceEdits(*nics[i].rdma, options_.dev_root, configs[i].rdma);
    }
    const Attachment* attachment = AttachmentOf(*plan, request.devices[i]);
    if (attachment != nullptr && options_.attach == AttachBy::kNetDevices) {
      prepared.edits["netDevices"] = Json::array(
          {{{"hostInterfaceName", attachment->home.name}, {"name", attachment->pod_name}}});
    }
    // Of a pod that has them the reporter tells.
    if (!attached || attachment == nullptr)
      prepared.status =
          attachment != nullptr ? WaitingStatusOf(*attachment) : ReadyStatusOf(nics[i]);
    reply.devices.push_back(std::move(prepared));
  }
  if (options_.attach == AttachBy::kNetDevices || plan->attachments.empty()) return reply;
  if (!attached) folder.WritePlan(*plan);
  reply.undo = kHasPlan;
  reply.claim_edits = {{"hooks", Json::array({{{"hookName", "createRuntime"},
                                               {"path", host_.SharedFile(call, HookProgram())},
                                               {"args", {"dra-rdma-hook", directory}}}})}};
  Track(request.claim.uid, directory, *plan, request.devices);
  return reply;
}

void RdmaBackend::Unprepare(const dra::HookCall& call, const dra::UnprepareRequest& request) {
  const ClaimFolder folder(host_.ClaimDirectory(call));
  reporter_.Forget(request.claim.uid);
  folder.Close();  // a hook that waits for the lock moves nothing then
  for (const GivenBack& back : GiveBack(folder, sysfs_.Path(""), TimeLeft(call))) {
    if (back.host_name.empty()) {
      host_.Log(dra::Severity::kWarn, "claim " + request.claim.uid + ": device " + back.device +
                                          " is gone from the host: " + back.remark);
    } else if (!back.remark.empty()) {
      host_.Log(dra::Severity::kWarn, "claim " + request.claim.uid + ": device " + back.device +
                                          " is back as " + back.host_name + ": " + back.remark);
    }
  }
  // An RDMA device that comes home makes no event.
  host_.InventoryChanged();
}

dra::ReconcileReply RdmaBackend::ReconcileRecord(const dra::HookCall& call,
                                                 const dra::ReconcileRequest& request) {
  if (!request.same_boot) return {.verdict = dra::Reconciled::kRedo};
  const std::string directory = host_.ClaimDirectory(call);
  const ClaimFolder folder(directory);
  // A claim without a plan moves nothing.
  if (const std::optional<Plan> plan = folder.ReadPlan()) {
    Track(request.claim.uid, directory, *plan, request.devices);
  } else if (!request.undo.empty()) {
    return {.verdict =
                dra::Reconciled::kRedo};  // lost, or closed by an unprepare that was not finished
  }
  return {.verdict = dra::Reconciled::kTrue};
}

std::vector<dra::HealthReport> RdmaBackend::Health(const dra::HookCall&) {
  std::vector<dra::HealthReport> reports;
  const auto picture = LastPicture();
  if (!picture) return reports;  // what is not reported is unknown
  for (const auto& [identity, nic] : picture->nics) {
    dra::HealthReport report{.device = nic.name};
    report.state = dra::HealthKind::kHealthy;
    if (!nic.pci_address.empty() && !sysfs_.Exists("bus/pci/devices/" + nic.pci_address)) {
      report.state = dra::HealthKind::kUnhealthy;
      report.fault_class = kUnplugged;
      report.message = "PCI function " + nic.pci_address + " is gone";
      report.remedy = "see the kernel's log; plug the card in again, or delete the pod that has it";
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace rdma

DRA_BACKEND(rdma::RdmaBackend);
