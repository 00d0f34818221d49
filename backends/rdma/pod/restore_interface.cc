#include "restore_interface.h"

#include <linux/netlink.h>

#include <exception>
#include <map>
#include <utility>
#include <vector>

#include "ethtool.h"
#include "find_interface.h"
#include "homecoming.h"
#include "sysctls.h"

namespace rdma {
namespace {

constexpr size_t kEthernetAddressText = 17;

class Restore {
 public:
  Restore(const NetworkNamespace& host, const Link& link, const HostInterface& home)
      : host_(host), route_(NETLINK_ROUTE, host), link_(link), home_(home) {}

  Restored All(const LostSettings* lost) {
    // First: it can forbid an MTU or a feature.
    Try("", [&] { DetachXdp(route_, link_, home_); });
    HardwareAddress();
    Sizes();
    Marks();
    if (lost != nullptr) Features(*lost);
    Name();
    if (lost != nullptr) Sysctls(*lost);
    if (link_.up != home_.up) Try("", [&] { SetUp(home_.up); });
    if (link_.name != home_.name) {
      if (!home_.addresses.empty() || !home_.routes.empty())
        Remark("its addresses and routes are not set again");
    } else {
      Addresses();
      if (home_.up) RoutesAndNeighbours();
    }
    return {link_.name, remark_};
  }

 private:
  void Remark(const std::string& text) { remark_ += (remark_.empty() ? "" : "; ") + text; }
  template <typename Function>
  void Try(const std::string& what, Function&& function) {
    try {
      function();
    } catch (const std::exception& error) {
      Remark((what.empty() ? "" : what + ": ") + error.what());
    }
  }
  void Change(const LinkChange& change) { ChangeLink(route_, link_.index, link_.name, change); }
  void SetUp(bool up) {
    LinkChange change;
    change.up = up;
    Change(change);
    link_.up = up;
  }

  void HardwareAddress() {
    // InfiniBand's is given by the card.
    if (home_.address.size() != kEthernetAddressText || link_.address == home_.address) return;
    Try("hardware address " + home_.address, [&] {
      if (link_.up) SetUp(false);
      LinkChange change;
      change.address = home_.address;
      Change(change);
    });
  }

  void Sizes() {
    if (home_.mtu != 0 && link_.mtu != home_.mtu) {
      Try("MTU " + std::to_string(home_.mtu), [&] {
        LinkChange change;
        change.mtu = home_.mtu;
        Change(change);
      });
    }
    if (link_.gso_max_size == home_.gso_max_size && link_.gro_max_size == home_.gro_max_size &&
        link_.gso_ipv4_max_size == home_.gso_ipv4_max_size &&
        link_.gro_ipv4_max_size == home_.gro_ipv4_max_size) {
      return;
    }
    // All of them, as setting the first ones changes the others.
    Try("GSO and GRO sizes", [&] {
      LinkChange change;
      const auto set = [](std::optional<uint32_t>& to, uint32_t size) {
        if (size != 0) to = size;
      };
      set(change.gso_max_size, home_.gso_max_size);
      set(change.gro_max_size, home_.gro_max_size);
      set(change.gso_ipv4_max_size, home_.gso_ipv4_max_size);
      set(change.gro_ipv4_max_size, home_.gro_ipv4_max_size);
      Change(change);
    });
  }

  void Marks() {
    Try("alternative names", [&] { DeleteForeignNames(route_, link_, home_); });
    if (link_.alias == home_.alias && link_.flags == home_.flags) return;
    Try("alias and flags", [&] {
      LinkChange change;
      change.alias = home_.alias;
      change.flags = home_.flags;
      Change(change);
    });
  }

  void Features(const LostSettings& lost) {
    if (lost.features.empty() && lost.private_flags.empty()) return;
    const auto differing = [](const std::map<std::string, bool>& wanted,
                              const std::map<std::string, bool>& present) {
      std::map<std::string, bool> result;
      for (const auto& [name, on] : present) {
        const auto found = wanted.find(name);
        if (found != wanted.end() && found->second != on) result.insert(*found);
      }
      return result;
    };
    Try("features", [&] {
      host_.Run([&] {
        if (!lost.features.empty()) {
          const auto changed = differing(lost.features, GetFeatures(link_.name));
          if (!changed.empty()) SetFeatures(link_.name, changed);
        }
        if (!lost.private_flags.empty()) {
          const auto changed = differing(lost.private_flags, GetPrivateFlags(link_.name));
          if (!changed.empty()) SetPrivateFlags(link_.name, changed);
        }
      });
    });
  }

  void Name() {
    if (link_.name == home_.name) return;
    if (HasName(ListLinks(route_), home_.name, link_.index)) {
      Remark(home_.name + " is taken by another interface: it is " + link_.name + " now");
      return;
    }
    Try("", [&] {
      if (link_.up) SetUp(false);  // kernels before 6.2 rename only what is down
      LinkChange change;
      change.name = home_.name;
      Change(change);
      link_.name = home_.name;
    });
  }

  void Sysctls(const LostSettings& lost) {
    if (lost.sysctls.empty()) return;
    host_.Run([&] {
      for (const auto& [setting, value] : lost.sysctls) {
        if (ReadSysctl(link_.name, setting) == value) continue;
        Try("", [&] { WriteSysctl(link_.name, setting, value); });
      }
    });
  }

  void Addresses() {
    Try("addresses", [&] {
      const std::vector<InterfaceAddress> present = ListAddresses(route_);
      const auto ip = [](const std::string& cidr) { return cidr.substr(0, cidr.find('/')); };
      for (InterfaceAddress address : home_.addresses) {
        bool there = false, elsewhere = false;
        for (const InterfaceAddress& other : present) {
          if (ip(other.cidr) != ip(address.cidr)) continue;
          (other.index == link_.index ? there : elsewhere) = true;
        }
        if (there) continue;
        if (elsewhere) {
          Remark("address " + address.cidr + " is on another interface now");
          continue;
        }
        address.index = link_.index;
        Try("", [&] { AddAddress(route_, address); });
      }
    });
  }

  void RoutesAndNeighbours() {
    // Those to the link come first: gateways are reached by them.
    for (const bool with_gateway : {false, true}) {
      for (Route route : home_.routes) {
        if (route.gateway.empty() == with_gateway) continue;
        route.index = link_.index;
        Try("", [&] { AddRoute(route_, route); });
      }
    }
    for (Neighbour neighbour : home_.neighbours) {
      neighbour.index = link_.index;
      Try("", [&] { AddNeighbour(route_, neighbour); });
    }
  }

  const NetworkNamespace& host_;
  NetlinkSocket route_;
  Link link_;
  const HostInterface& home_;
  std::string remark_;
};

}  // namespace

Restored RestoreInterface(const NetworkNamespace& host, const Link& link,
                          const Attachment& attachment, const LostSettings* lost) {
  return Restore(host, link, attachment.home).All(lost);
}

}  // namespace rdma
