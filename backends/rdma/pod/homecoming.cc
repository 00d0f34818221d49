#include "homecoming.h"

#include <linux/netlink.h>
#include <time.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <stdexcept>

#include "ethtool.h"
#include "find_interface.h"
#include "links.h"
#include "restore_interface.h"
#include "sysctls.h"

namespace rdma {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::optional<Link> LookInPod(const Homecoming& way, const Attachment& attachment) {
  if (way.pod == nullptr) return std::nullopt;
  NetlinkSocket socket(NETLINK_ROUTE, *way.pod);
  return FindInPod(ListLinks(socket), attachment, NotedOf(way.state, attachment.device, *way.pod));
}

std::optional<Link> LookOnHost(const Homecoming& way, const std::string& claim_uid,
                               const Attachment& attachment) {
  NetlinkSocket socket(NETLINK_ROUTE, way.host);
  return FindOnHost(ListLinks(socket), attachment, TemporaryName(claim_uid, attachment.device),
                    way.sys);
}

// As long as the kernel may be at it: it takes namespaces apart in the background.
std::optional<Link> WaitOnHost(const Homecoming& way, const std::string& claim_uid,
                               const Attachment& attachment) {
  const auto end = steady_clock::now() + way.patience;
  constexpr timespec kPause{0, 50'000'000};
  for (;;) {
    if (auto link = LookOnHost(way, claim_uid, attachment)) return link;
    if (!HasNetworkDriver(way.sys, attachment.home.pci_address) || steady_clock::now() >= end)
      return std::nullopt;
    nanosleep(&kPause, nullptr);
  }
}

// Under a name that is free wherever it comes through: the kernel keeps the name that it has unless that is taken in
// the other namespace, and renames it after the move, when a name that is taken fails the request and not the move.
// Alternative names of the pod's would hold it back where the host has them.
Link MoveHome(const Homecoming& way, const Link& link, const HostInterface& home,
              const std::string& temporary) {
  NetlinkSocket from(NETLINK_ROUTE, *way.pod), to(NETLINK_ROUTE, way.host);
  DeleteForeignNames(from, link, home);
  LinkChange change;
  change.name = temporary;
  change.target = &way.host;
  ChangeLink(from, link.index, link.name, change);
  std::optional<Link> moved = FindLink(to, temporary);
  if (!moved) throw std::runtime_error("it was renamed while it came back to the host");
  return *moved;
}

GivenBack DeleteMacvlan(const Homecoming& way, const std::string& claim_uid,
                        const Attachment& attachment) {
  GivenBack result{attachment.device, "", ""};
  const std::optional<Link> parent = LookOnHost(way, claim_uid, attachment);
  if (parent) {
    result.host_name = parent->name;
  } else {
    result.remark = "interface " + attachment.home.name + " is not on the host any more";
  }
  if (way.pod == nullptr) return result;  // it went with the namespace
  NetlinkSocket socket(NETLINK_ROUTE, *way.pod);
  const AttachedInterface* noted = NotedOf(way.state, attachment.device, *way.pod);
  const auto link = FindMacvlan(ListLinks(socket), attachment,
                                parent ? parent->index : attachment.home.index, noted);
  if (link) DeleteLink(socket, link->index, link->name);
  return result;
}

// Whether it is on the host then.
bool BringRdmaHome(const Homecoming& way, const std::string& device) {
  if (way.pod != nullptr && way.rdma.Has(device, *way.pod)) {
    way.rdma.Move(device, *way.pod, way.host);
    return true;
  }
  const auto end = steady_clock::now() + way.patience;
  constexpr timespec kPause{0, 50'000'000};
  while (!way.rdma.Has(device, way.host)) {
    if (way.pod != nullptr || steady_clock::now() >= end) return false;
    nanosleep(&kPause, nullptr);
  }
  return true;
}

GivenBack BringInterfaceHome(const Homecoming& way, const std::string& claim_uid,
                             const Attachment& attachment) {
  const HostInterface& home = attachment.home;
  GivenBack result{attachment.device, "", ""};
  std::optional<Link> link;
  if (const auto in_pod = LookInPod(way, attachment)) {
    link = MoveHome(way, *in_pod, home, TemporaryName(claim_uid, attachment.device));
  } else {
    link = WaitOnHost(way, claim_uid, attachment);
  }
  if (!link) {
    if (HasNetworkDriver(way.sys, home.pci_address)) {
      throw std::runtime_error(
          "PCI function " + home.pci_address +
          " is there, but its interface is neither on the host nor in the pod's namespace: it is "
          "in another one, and comes back when that ends");
    }
    result.remark =
        "interface " + home.name + " is gone: " +
        (home.pci_address.empty() ? "it was destroyed with its namespace or deleted"
                                  : "the card has no interface or is not there any more");
    return result;
  }
  const LostSettings* lost = nullptr;
  if (way.state != nullptr) {
    const auto found = way.state->lost.find(attachment.device);
    if (found != way.state->lost.end()) lost = &found->second;
  }
  const Restored restored = RestoreInterface(way.host, *link, attachment, lost);
  result.host_name = restored.name;
  result.remark = restored.remark;
  return result;
}

}  // namespace

void DeleteForeignNames(NetlinkSocket& route, const Link& link, const HostInterface& home) {
  const std::vector<std::string>& own = home.alternative_names;
  for (const std::string& name : link.alternative_names) {
    if (std::find(own.begin(), own.end(), name) == own.end())
      DeleteAlternativeName(route, link.index, name);
  }
}

void DetachXdp(NetlinkSocket& route, const Link& link, const HostInterface& home) {
  const std::vector<uint32_t>& own = home.xdp_programs;
  for (const XdpProgram& program : link.xdp) {
    if (std::find(own.begin(), own.end(), program.id) != own.end()) continue;
    LinkChange change;
    change.xdp_off = program.mode;
    try {
      ChangeLink(route, link.index, link.name, change);
    } catch (const NetlinkError& error) {
      throw std::runtime_error("detach XDP program " + std::to_string(program.id) + ": " +
                               error.what());
    }
  }
}

const AttachedInterface* NotedOf(const AttachState* state, const std::string& device,
                                 const NetworkNamespace& pod) {
  if (state == nullptr) return nullptr;
  const auto [file_system, inode] = pod.Identity();
  if (state->namespace_device != file_system || state->namespace_inode != inode) return nullptr;
  for (const AttachedInterface& interface : state->interfaces) {
    if (interface.device == device) return &interface;
  }
  return nullptr;
}

LostSettings NoteSettings(const std::string& interface, const NetworkConfig& config) {
  LostSettings lost;
  if (!config.features.empty()) lost.features = GetFeatures(interface);
  if (!config.private_flags.empty()) lost.private_flags = GetPrivateFlags(interface);
  lost.sysctls = SysctlsOf(interface);
  return lost;
}

GivenBack BringHome(const Homecoming& way, const std::string& claim_uid,
                    const Attachment& attachment) {
  try {
    GivenBack result{attachment.device, "", ""};
    const bool rdma_home =
        attachment.rdma_device.empty() || BringRdmaHome(way, attachment.rdma_device);
    if (attachment.home.name.empty()) {
      if (rdma_home) result.host_name = attachment.rdma_device;
    } else if (attachment.kind == AttachKind::kMacvlan) {
      result = DeleteMacvlan(way, claim_uid, attachment);
    } else {
      result = BringInterfaceHome(way, claim_uid, attachment);
    }
    if (!rdma_home) {
      result.remark += (result.remark.empty() ? "" : "; ") +
                       ("RDMA device " + attachment.rdma_device) + " is not on the host any more";
    }
    return result;
  } catch (const std::exception& error) {
    throw std::runtime_error("bring device " + attachment.device +
                             " back to the host: " + error.what());
  }
}

std::vector<GivenBack> BringAllHome(const Homecoming& way, const std::string& claim_uid,
                                    const std::vector<Attachment>& attachments) {
  std::vector<GivenBack> all;
  std::exception_ptr first;
  const auto end = steady_clock::now() + way.patience;
  Homecoming rest = way;
  for (const Attachment& attachment : attachments) {
    rest.patience = std::max(milliseconds(0),
                             std::chrono::duration_cast<milliseconds>(end - steady_clock::now()));
    try {
      all.push_back(BringHome(rest, claim_uid, attachment));
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  return all;
}

}  // namespace rdma
