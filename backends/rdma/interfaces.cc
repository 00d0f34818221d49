#include "interfaces.h"

#include <algorithm>
#include <regex>
#include <utility>

namespace rdma {
namespace {

constexpr uint16_t kLoopbackType = 772;  // ARPHRD_LOOPBACK

}  // namespace

bool IsRepresentor(const Link& link) {
  static const std::regex kName("(c[0-9]+)?pf[0-9]+(vf[0-9]+|sf[0-9]+|hpf)?");
  return std::regex_match(link.physical_port_name, kName);
}

bool LiesOnAnother(const Link& link) {
  // A veth names its other end, on which it does not lie.
  return link.parent != 0 && link.kind != "veth";
}

bool IsNeverANic(const Link& link) {
  static const std::set<std::string> kKinds = {
      "bridge",      "erspan",    "geneve", "gre",  "gretap", "ifb",      "ip6erspan",
      "ip6gre",      "ip6gretap", "ip6tnl", "ipip", "nlmon",  "sit",      "tun",
      "openvswitch", "vrf",       "vti",    "vti6", "vxlan",  "wireguard"};
  static const std::set<std::string> kNames = {"cilium_host", "cilium_net"};
  return link.type == kLoopbackType || kKinds.count(link.kind) != 0 || kNames.count(link.name) != 0;
}

Interfaces::Interfaces(const dra::Sysfs& sys, const KernelNetwork& kernel)
    : sys_(sys), kernel_(kernel) {
  for (const Link& link : kernel.links) by_index_[link.index] = &link;
  for (const std::string& name : sys.List("class/net")) {
    const auto index = sys.ReadInteger("class/net/" + name + "/ifindex");
    if (!index) continue;  // a file of the bonding driver, or gone
    if (by_index_.count(static_cast<int>(*index)) != 0) {
      sysfs_names_[static_cast<int>(*index)] = name;
    } else if (const Place place = PlaceOf(sys, "class/net/" + name, 2); !place.function.empty()) {
      unsettled_.insert(place.function);
    }
  }
  for (const Link& link : kernel.links) interfaces_.push_back({&link, PlaceOfLink(link)});
  default_route_ = UnderDefaultRoutes(kernel);
}

Place Interfaces::PlaceOfLink(const Link& link) const {
  if (const auto name = sysfs_names_.find(link.index); name != sysfs_names_.end()) {
    return PlaceOf(sys_, "class/net/" + name->second, 2);
  }
  // sysfs shows another namespace's interfaces, or has lost it since.
  if (link.parent_bus.empty()) return {};
  if (link.parent_bus == "pci") return {link.parent_device, ""};
  return PlaceOf(sys_, "bus/" + link.parent_bus + "/devices/" + link.parent_device, 0);
}

std::set<int> UnderDefaultRoutes(const KernelNetwork& kernel) {
  std::set<int> under;
  std::vector<int> todo(kernel.default_route_interfaces.begin(),
                        kernel.default_route_interfaces.end());
  while (!todo.empty()) {
    const int index = todo.back();
    todo.pop_back();
    if (!under.insert(index).second) continue;
    for (const Link& link : kernel.links) {
      if (link.master == index) todo.push_back(link.index);
      if (link.index == index && link.parent != 0 && !link.parent_elsewhere)
        todo.push_back(link.parent);
    }
  }
  return under;
}

Netdev Interfaces::NetdevOf(const Link& link) const {
  Netdev netdev;
  netdev.link = link;
  const auto name = sysfs_names_.find(link.index);
  const std::string path = "class/net/" + (name == sysfs_names_.end() ? link.name : name->second);
  const auto speed = sys_.ReadInteger(path + "/speed");
  // -1 while the link is down; some drivers show it as unsigned.
  if (speed && *speed > 0 && *speed < INT32_MAX) netdev.speed_mbps = speed;
  netdev.dev_port = sys_.ReadInteger(path + "/dev_port").value_or(0);
  if (netdev.dev_port == 0)
    netdev.dev_port = sys_.ReadInteger(path + "/dev_id").value_or(0);  // before Linux 3.15
  for (const InterfaceAddress& address : kernel_.addresses) {
    if (address.index == link.index) netdev.addresses.push_back(address);
  }
  netdev.default_route = default_route_.count(link.index) != 0;
  return netdev;
}

const Link* Interfaces::Find(int index) const {
  const auto found = by_index_.find(index);
  return found == by_index_.end() ? nullptr : found->second;
}

}  // namespace rdma
