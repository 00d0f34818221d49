#include "nic_attributes.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "devices.h"
#include "text.h"

namespace rdma {
namespace {

using dra::Json;

constexpr size_t kMaxValueBytes = 64;  // kubernetes/api:resource/v1, DeviceAttributeMaxValueLength

struct Subject {
  const Nic& nic;
  const dra::Sysfs& sys;
  PciNames::Names names;

  const Netdev* netdev() const { return nic.netdev ? &*nic.netdev : nullptr; }
  bool is_pci() const { return !nic.pci_address.empty(); }
  // nullptr: none that a pod could use now.
  const RdmaDevice* rdma() const {
    return nic.rdma && nic.rdma->unusable.empty() ? &*nic.rdma : nullptr;
  }
  const RdmaPort* port() const {
    return nic.rdma && !nic.rdma->ports.empty() ? &nic.rdma->ports.front() : nullptr;
  }
};

// A text of which the beginning says something too.
Json Text(const std::string& text) {
  if (text.empty() || !IsUtf8(text)) return nullptr;
  return {{"string", CutUtf8(text, kMaxValueBytes)}};
}
// One that would lie if it were cut: an address, a list.
Json Whole(const std::string& text) {
  if (text.size() > kMaxValueBytes) return nullptr;
  return Text(text);
}
Json Int(int64_t value) { return {{"int", value}}; }
Json Bool(bool value) { return {{"bool", value}}; }
Json OfNetdev(const Subject& subject, Json (*make)(const std::string&), std::string Link::*member) {
  return subject.netdev() == nullptr ? Json() : make(subject.netdev()->link.*member);
}
// "0x15b3" is "15b3".
Json Id(const std::string& id) { return Whole(id.rfind("0x", 0) == 0 ? id.substr(2) : id); }

// As Go's net.IP.IsGlobalUnicast, which dranet asks: private addresses count.
bool IsGlobalUnicast(int family, const std::string& cidr) {
  const std::string text = cidr.substr(0, cidr.find('/'));
  if (family == AF_INET) {
    in_addr address = {};
    if (inet_pton(AF_INET, text.c_str(), &address) != 1) return false;
    const uint32_t bits = ntohl(address.s_addr);
    return bits != 0 && bits != 0xFFFFFFFF && bits >> 24 != 127 && bits >> 28 != 0xE &&
           bits >> 16 != 0xA9FE;
  }
  in6_addr address = {};
  if (inet_pton(AF_INET6, text.c_str(), &address) != 1) return false;
  return !IN6_IS_ADDR_UNSPECIFIED(&address) && !IN6_IS_ADDR_LOOPBACK(&address) &&
         !IN6_IS_ADDR_MULTICAST(&address) && !IN6_IS_ADDR_LINKLOCAL(&address);
}

Json Addresses(const Subject& subject, int family) {
  if (subject.netdev() == nullptr) return nullptr;
  std::vector<std::string> cidrs;
  for (const InterfaceAddress& address : subject.netdev()->addresses) {
    if (IsGlobalUnicast(family, address.cidr)) cidrs.push_back(address.cidr);
  }
  std::sort(cidrs.begin(), cidrs.end());
  return Whole(Join(cidrs, ","));
}

Json Encapsulation(const Subject& subject) {
  if (subject.netdev() == nullptr) return nullptr;
  switch (subject.netdev()->link.type) {
    case 1:
      return Text("ether");
    case 32:
      return Text("infiniband");
    case 0xFFFE:
      return Text("none");
  }
  return nullptr;
}

Json LinkType(const Subject& subject) {
  if (subject.netdev() == nullptr) return nullptr;
  const std::string& kind = subject.netdev()->link.kind;
  return Text(kind.empty() ? "device" : kind);
}

// Of the functions that it is, or lies on: what they all say, else nothing.
template <typename Value, typename Ask>
std::optional<Value> Common(const Nic& nic, Ask&& ask) {
  std::vector<std::string> addresses = nic.members;
  if (!nic.pci_address.empty()) addresses = {nic.pci_address};
  std::optional<Value> common;
  for (const std::string& text : addresses) {
    const auto address = dra::ParsePciAddress(text);
    const std::optional<Value> value = address ? ask(*address) : std::nullopt;
    if (!value || (common && *common != *value)) return std::nullopt;
    common = value;
  }
  return common;
}

std::optional<std::string> PcieRoot(const Subject& subject) {
  return Common<std::string>(
      subject.nic, [&](const dra::PciAddress& address) { return subject.sys.PcieRoot(address); });
}
std::optional<int64_t> NumaNode(const Subject& subject) {
  return Common<int64_t>(
      subject.nic, [&](const dra::PciAddress& address) { return subject.sys.NumaNode(address); });
}

struct Attribute {
  const char* name;
  const char* type;
  const char* description;
  bool is_volatile;
  Json (*value)(const Subject&);  // null: not known
};

// In the order of their rank. Source of dranet's, down to "numaNode": kubernetes-sigs/dranet: pkg/apis/attributes.go.
const Attribute kAttributes[] = {
    {"ifName", "string", "name of the interface on the host", false,
     [](const Subject& s) { return OfNetdev(s, Whole, &Link::name); }},
    {"rdma", "bool", "it has an RDMA device that a pod can use now", false,
     [](const Subject& s) { return Bool(s.rdma() != nullptr); }},
    {"rdmaDevice", "string", "name of the RDMA device, such as \"mlx5_0\"", false,
     [](const Subject& s) { return s.rdma() == nullptr ? Json() : Whole(s.rdma()->name); }},
    {"pciAddress", "string", "such as \"0000:8d:00.0\"", false,
     [](const Subject& s) { return Whole(s.nic.pci_address); }},
    {"numaNode", "int", "NUMA node; of a bond and the like, where all members have one", false,
     [](const Subject& s) {
       const auto node = NumaNode(s);
       return node ? Int(*node) : Json();
     }},
    {"type", "string",
     "kind of the interface, as the kernel names it: \"device\", \"ipoib\", \"bond\", \"veth\", "
     "...",
     false, LinkType},
    {"encapsulation", "string", "\"ether\" or \"infiniband\"", false, Encapsulation},
    {"state", "string", "operational state: \"up\", \"down\", \"unknown\", ...", true,
     [](const Subject& s) { return OfNetdev(s, Text, &Link::state); }},
    {"mac", "string", "hardware address as it is set; 20 bytes on InfiniBand", false,
     [](const Subject& s) { return OfNetdev(s, Whole, &Link::address); }},
    {"mtu", "int", "bytes", false,
     [](const Subject& s) { return s.netdev() == nullptr ? Json() : Int(s.netdev()->link.mtu); }},
    {"ipv4", "string",
     "global IPv4 addresses with prefix, sorted, by commas; absent if longer than 64 bytes", true,
     [](const Subject& s) { return Addresses(s, AF_INET); }},
    {"ipv6", "string", "likewise, IPv6", true,
     [](const Subject& s) { return Addresses(s, AF_INET6); }},
    {"virtual", "bool", "it is no PCI function's own interface", false,
     [](const Subject& s) { return Bool(!s.is_pci()); }},
    {"sriov", "bool", "it can have virtual functions", false,
     [](const Subject& s) { return s.is_pci() ? Bool(s.nic.physical_function) : Json(); }},
    {"sriovVfs", "int", "how many virtual functions it has now", true,
     [](const Subject& s) {
       return s.nic.physical_function ? Int(s.nic.virtual_functions) : Json();
     }},
    {"isSriovVf", "bool", "true on a virtual function, absent elsewhere", false,
     [](const Subject& s) { return s.nic.pf_address.empty() ? Json() : Bool(true); }},
    {"pciVendor", "string", "name from the host's pci.ids, cut at 64 bytes", false,
     [](const Subject& s) { return Text(s.names.vendor); }},
    {"pciDevice", "string", "likewise", false,
     [](const Subject& s) { return Text(s.names.device); }},
    {"pciSubsystem", "string", "likewise", false,
     [](const Subject& s) { return Text(s.names.subsystem); }},
    {"alias", "string", "the interface's alias, cut at 64 bytes", false,
     [](const Subject& s) { return OfNetdev(s, Text, &Link::alias); }},
    // Ours.
    {"linkLayer", "string", "\"ethernet\" or \"infiniband\"", false,
     [](const Subject& s) { return Whole(LinkLayerOf(s.nic)); }},
    {"rateGbps", "int", "speed of the link in Gb/s, rounded down; absent while it is down", true,
     [](const Subject& s) {
       const auto rate = RateMbpsOf(s.nic);
       return rate ? Int(*rate / 1000) : Json();
     }},
    {"kind", "string",
     "\"physical\", \"virtualFunction\", \"subFunction\", or the kind of a virtual interface",
     false, [](const Subject& s) { return Whole(KindOf(s.nic)); }},
    {"vendorID", "string", "PCI id, such as \"15b3\"", false,
     [](const Subject& s) { return Id(s.nic.vendor); }},
    {"deviceID", "string", "PCI id, such as \"1021\"", false,
     [](const Subject& s) { return Id(s.nic.device); }},
    {"pfPciAddress", "string", "of a virtual function: its physical function", false,
     [](const Subject& s) { return Whole(s.nic.pf_address); }},
    {"nodeGuid", "string", "of the RDMA device, such as \"9803:9b03:0067:ab58\"", false,
     [](const Subject& s) { return s.nic.rdma ? Whole(s.nic.rdma->node_guid) : Json(); }},
    {"portGuid", "string", "of its (first) port", false,
     [](const Subject& s) { return s.port() == nullptr ? Json() : Whole(s.port()->port_guid); }},
    {"driver", "string", "of the kernel, such as \"mlx5_core\"", false,
     [](const Subject& s) { return Whole(s.nic.driver); }},
    {"portState", "string", "of its (first) RDMA port: \"ACTIVE\", \"INIT\", \"DOWN\", ...", true,
     [](const Subject& s) { return s.port() == nullptr ? Json() : Text(s.port()->state); }},
    {"fwVersion", "string", "of the RDMA device", false,
     [](const Subject& s) { return s.nic.rdma ? Text(s.nic.rdma->firmware) : Json(); }},
    {"pfName", "string", "of a virtual function: the interface of its physical function", false,
     [](const Subject& s) { return Whole(s.nic.pf_interface); }},
    {"vfIndex", "int", "of a virtual function: its number", false,
     [](const Subject& s) { return s.nic.vf_index < 0 ? Json() : Int(s.nic.vf_index); }},
    {"boardID", "string", "of the card, such as \"MT_0000000838\": finds NICs of one make", false,
     [](const Subject& s) { return s.nic.rdma ? Text(s.nic.rdma->board_id) : Json(); }},
    {"physState", "string", "of its (first) RDMA port: \"LinkUp\", \"Disabled\", ...", true,
     [](const Subject& s) {
       return s.port() == nullptr ? Json() : Text(s.port()->physical_state);
     }},
    {"memberPciAddresses", "string",
     "of a bond, vlan or the like: the functions it lies on, sorted, by commas", false,
     [](const Subject& s) { return Whole(Join(s.nic.members, ",")); }},
    {"physSwitchID", "string", "of the switch that the port is of", false,
     [](const Subject& s) { return OfNetdev(s, Whole, &Link::physical_switch_id); }},
    {"physPortName", "string", "of the port on its switch or card, such as \"p0\"", false,
     [](const Subject& s) { return OfNetdev(s, Whole, &Link::physical_port_name); }},
    {"permanentMac", "string", "hardware address as the card came, if another is set", false,
     [](const Subject& s) {
       if (s.netdev() == nullptr || s.netdev()->link.permanent_address == s.netdev()->link.address)
         return Json();
       return Whole(s.netdev()->link.permanent_address);
     }},
    {"nodeType", "string", "of the RDMA device: \"CA\", \"RNIC\", ...", false,
     [](const Subject& s) { return s.nic.rdma ? Text(s.nic.rdma->node_type) : Json(); }},
    {"hcaType", "string", "of the RDMA device, such as \"MT4129\"", false,
     [](const Subject& s) { return s.nic.rdma ? Text(s.nic.rdma->hca_type) : Json(); }},
};

}  // namespace

void AddAttributes(const Nic& nic, const dra::Sysfs& sys, const std::string& domain,
                   const PciNames* names, size_t room, Json& device) {
  Subject subject{nic, sys, {}};
  if (names != nullptr && subject.is_pci()) {
    subject.names = names->Of(nic.vendor, nic.device, nic.subsystem_vendor, nic.subsystem_device);
  }
  if (const auto address = dra::ParsePciAddress(nic.pci_address)) {
    sys.AddStandardAttributes(*address, device);
  } else {
    if (const auto root = PcieRoot(subject)) {
      device["attributes"]["resource.kubernetes.io/pcieRoot"] = {{"string", *root}};
    }
    if (const auto node = NumaNode(subject))
      device["attributes"]["resource.kubernetes.io/numaNode"] = {{"int", *node}};
  }
  Json& attributes = device["attributes"];
  for (const Attribute& attribute : kAttributes) {
    if (attributes.size() >= room) break;
    Json value = attribute.value(subject);
    if (!value.is_null()) attributes[domain + "/" + attribute.name] = std::move(value);
  }
}

std::vector<dra::BackendManifest::Attribute> DescribeAttributes() {
  std::vector<dra::BackendManifest::Attribute> described;
  for (const Attribute& attribute : kAttributes) {
    described.push_back(
        {attribute.name, attribute.type, attribute.description, attribute.is_volatile});
  }
  return described;
}

}  // namespace rdma
