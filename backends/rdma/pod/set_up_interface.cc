#include "set_up_interface.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <stdexcept>

#include "ethtool.h"
#include "normal_form.h"
#include "sysctls.h"

namespace rdma {
namespace {

using Interface = NetworkConfig::Interface;

class SetUp {
 public:
  SetUp(const NetworkNamespace& pod, const Link& link, const Attachment& attachment)
      : pod_(pod),
        route_(NETLINK_ROUTE, pod),
        link_(link),
        attachment_(attachment),
        config_(attachment.config) {}

  AttachedInterface All(bool afresh) {
    if (afresh) {
      OfTheLink();
      pod_.Run([&] {
        Sysctls();
        if (!config_.features.empty()) SetFeatures(link_.name, config_.features);
        if (!config_.private_flags.empty()) SetPrivateFlags(link_.name, config_.private_flags);
      });
    }
    // Before addresses: IPv6 loses them while an interface goes down, and routes need it up.
    if (!link_.up) {
      LinkChange change;
      change.up = true;
      Change(change);
    }
    for (const std::string& cidr : config_.interface.addresses) {
      InterfaceAddress address;
      address.index = link_.index;
      address.cidr = cidr;
      address.broadcast = BroadcastOf(cidr);
      AddAddress(route_, address);
    }
    Routes();
    Rules();
    for (const NetworkConfig::NeighbourWish& wish : config_.neighbors)
      AddNeighbour(route_, {link_.index, wish.destination, wish.hardware_address});
    return Result();
  }

 private:
  void Change(const LinkChange& change) { ChangeLink(route_, link_.index, link_.name, change); }

  // One request for each, so that an error says which.
  void OfTheLink() {
    const Interface& wish = config_.interface;
    if (link_.name != attachment_.pod_name) {
      Down();
      LinkChange change;
      change.name = attachment_.pod_name;
      Change(change);
      link_.name = attachment_.pod_name;
    }
    if (!wish.hardware_address.empty() && link_.address != wish.hardware_address) {
      Try("hardware address " + wish.hardware_address, [&] {
        Down();
        LinkChange change;
        change.address = wish.hardware_address;
        Change(change);
      });
    }
    if (wish.mtu && link_.mtu != *wish.mtu) {
      Try("MTU " + std::to_string(*wish.mtu), [&] {
        LinkChange change;
        change.mtu = wish.mtu;
        Change(change);
      });
    }
    if (wish.gso_max_size || wish.gro_max_size || wish.gso_ipv4_max_size ||
        wish.gro_ipv4_max_size) {
      Try("GSO and GRO sizes", [&] {
        LinkChange change;
        change.gso_max_size = wish.gso_max_size;
        change.gro_max_size = wish.gro_max_size;
        change.gso_ipv4_max_size = wish.gso_ipv4_max_size;
        change.gro_ipv4_max_size = wish.gro_ipv4_max_size;
        Change(change);
      });
    }
  }

  template <typename Function>
  void Try(const std::string& what, Function&& function) {
    try {
      function();
    } catch (const std::exception& error) {
      throw std::runtime_error(what + ": " + error.what());
    }
  }

  void Down() {
    if (!link_.up) return;
    LinkChange change;
    change.up = false;
    Change(change);
    link_.up = false;
  }

  // On a thread in the pod's namespace, which /proc/sys/net shows.
  void Sysctls() {
    const Interface& wish = config_.interface;
    // Runtimes and network plugins switch IPv6 off for what comes after them.
    if (WantsIpv6() && ReadSysctl(link_.name, "ipv6/disable_ipv6") == "1")
      WriteSysctl(link_.name, "ipv6/disable_ipv6", "0");
    if (wish.forwarding) {
      const char* value = *wish.forwarding ? "1" : "0";
      WriteSysctl(link_.name, "ipv4/forwarding", value);
      if (ReadSysctl(link_.name, "ipv6/forwarding"))
        WriteSysctl(link_.name, "ipv6/forwarding", value);
    }
    if (wish.arp_ignore)
      WriteSysctl(link_.name, "ipv4/arp_ignore", std::to_string(*wish.arp_ignore));
    if (wish.arp_announce)
      WriteSysctl(link_.name, "ipv4/arp_announce", std::to_string(*wish.arp_announce));
  }

  bool WantsIpv6() const {
    for (const std::string& cidr : config_.interface.addresses) {
      if (IpFamily(cidr) == AF_INET6) return true;
    }
    for (const NetworkConfig::RouteWish& wish : config_.routes) {
      if (IpFamily(wish.destination) == AF_INET6) return true;
    }
    return false;
  }

  void Routes() {
    // Those to the link come first: gateways are reached by them.
    for (const bool with_gateway : {false, true}) {
      for (const NetworkConfig::RouteWish& wish : config_.routes) {
        if (wish.gateway.empty() == with_gateway) continue;
        Route route;
        route.index = link_.index;
        route.family = IpFamily(wish.destination);
        route.destination = wish.destination;
        route.gateway = wish.gateway;
        route.source = wish.source;
        route.table = wish.table == 0 ? RT_TABLE_MAIN : wish.table;
        route.scope = wish.scope;
        route.metric = wish.metric;
        route.protocol = RTPROT_STATIC;
        AddRoute(route_, route);
      }
    }
  }

  void Rules() {
    for (const NetworkConfig::RuleWish& wish : config_.rules) {
      Rule rule;
      rule.family = IpFamily(wish.source.empty() ? wish.destination : wish.source);
      rule.priority = wish.priority;
      rule.source = wish.source;
      rule.destination = wish.destination;
      rule.table = wish.table;
      AddRule(route_, rule);
    }
  }

  AttachedInterface Result() {
    AttachedInterface result;
    result.device = attachment_.device;
    result.index = link_.index;
    const std::optional<Link> now = FindLink(route_, link_.index);
    if (!now)
      throw std::runtime_error("interface " + link_.name + " went away while it was set up");
    result.pod_name = now->name;
    result.address = now->address;
    for (const InterfaceAddress& address : ListAddresses(route_, link_.index)) {
      if (address.scope == RT_SCOPE_UNIVERSE || address.scope == RT_SCOPE_SITE)
        result.ips.push_back(address.cidr);
    }
    return result;
  }

  const NetworkNamespace& pod_;
  NetlinkSocket route_;
  Link link_;
  const Attachment& attachment_;
  const NetworkConfig& config_;
};

}  // namespace

AttachedInterface SetUpInterface(const NetworkNamespace& pod, const Link& link,
                                 const Attachment& attachment, bool afresh) {
  return SetUp(pod, link, attachment).All(afresh);
}

}  // namespace rdma
