#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dra/backend/sysfs.h"
#include "links_source.h"
#include "nic.h"
#include "pci_functions.h"

namespace rdma {

// The host's interfaces, each with the PCI function that it belongs to. Joined by index: an interface that is renamed
// between the looks at netlink and at sysfs stays one.
class Interfaces {
 public:
  // Both outlive this.
  Interfaces(const dra::Sysfs& sys, const KernelNetwork& kernel);

  struct Interface {
    const Link* link;
    Place place;
  };
  const std::vector<Interface>& all() const { return interfaces_; }
  // Functions with an interface that netlink did not know yet: another look will tell.
  const std::set<std::string>& unsettled() const { return unsettled_; }

  Netdev NetdevOf(const Link& link) const;
  const Link* Find(int index) const;  // nullptr: not on this host

 private:
  Place PlaceOfLink(const Link& link) const;

  const dra::Sysfs& sys_;
  const KernelNetwork& kernel_;
  std::map<int, std::string> sysfs_names_;  // by index
  std::map<int, const Link*> by_index_;
  std::vector<Interface> interfaces_;
  std::set<std::string> unsettled_;
  std::set<int> default_route_;
};

// Indices of what default routes lead through: their interfaces, and what those lie on.
std::set<int> UnderDefaultRoutes(const KernelNetwork& kernel);

// Stands for a virtual function or subfunction on its physical function's side: "pf0vf3", "c1pf0sf4", "pf0hpf".
bool IsRepresentor(const Link& link);
// No hardware that could be given away: made on top of another one (vlan, macvlan, IPoIB child).
bool LiesOnAnother(const Link& link);
// What no claim can mean: loopback, bridges, tunnels, taps, and the links of a cluster's own network.
bool IsNeverANic(const Link& link);

}  // namespace rdma
