#include "discovery.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "char_devices.h"
#include "interfaces.h"
#include "pci_functions.h"
#include "rdma_sysfs.h"

namespace rdma {
namespace {

constexpr char kVirtualPrefix[] = "net:";

std::string PciIdentity(const std::string& address, int64_t port) {
  return "pci:" + address + (port == 0 ? "" : "/" + std::to_string(port));
}

// "/1" after the function's own identity.
int64_t PortOfIdentity(const std::string& identity, const std::string& of_function) {
  int64_t port = 0;
  for (size_t i = of_function.size() + 1; i < identity.size() && identity[i] >= '0' &&
                                          identity[i] <= '9' && i < of_function.size() + 9;
       ++i) {
    port = port * 10 + (identity[i] - '0');
  }
  return port;
}

bool HasGidOf(const RdmaDevice& device, const std::string& interface) {
  return std::any_of(device.ports.begin(), device.ports.end(), [&](const RdmaPort& port) {
    return std::find(port.gid_netdevs.begin(), port.gid_netdevs.end(), interface) !=
           port.gid_netdevs.end();
  });
}

void AddMember(Nic& upper, const Nic& member) {
  upper.members.push_back(member.pci_address);
  if (!member.pf_address.empty()) upper.member_pfs.push_back(member.pf_address);
}

// One look at the node.
class Look {
 public:
  Look(const dra::Sysfs& sys, const KernelNetwork& kernel,
       const std::map<std::string, HeldNic>& held)
      : sys_(sys),
        held_(held),
        functions_(sys),
        entries_(ReadRdmaEntries(sys)),
        interfaces_(sys, kernel) {
    for (RdmaEntry& entry : entries_) {
      if (!entry.place.function.empty() && !entry.place.IsSubFunction()) {
        of_function_[entry.place.function].push_back(&entry);
      } else {
        loose_.push_back(&entry);
      }
    }
    for (const Interfaces::Interface& interface : interfaces_.all()) {
      if (IsRepresentor(*interface.link)) continue;
      const Place& place = interface.place;
      if (!place.function.empty() && !place.IsSubFunction() && !LiesOnAnother(*interface.link) &&
          IsNic(place.function)) {
        links_of_function_[place.function].push_back(interface.link);
      } else if (!IsNeverANic(*interface.link)) {
        virtual_.push_back(interface);
      }
    }
  }

  void AddFunctions(const std::function<void()>& check) {
    for (const std::string& address : functions_.Addresses()) {
      check();
      try {
        if (IsNic(address)) AddFunction(address);
      } catch (const dra::BackendError& error) {
        Problem(PciIdentity(address, 0), error.what());
      }
    }
  }
  void AddVirtualInterfaces();
  void AddHeldVirtualInterfaces();
  void RelateInterfaces();
  void RelateFunctions();
  void CheckNodes(const std::string& dev);

  std::vector<Nic> TakeNics() {
    std::sort(nics_.begin(), nics_.end(),
              [](const Nic& a, const Nic& b) { return a.name < b.name; });
    return std::move(nics_);
  }
  std::vector<NicProblem> TakeProblems() { return std::move(problems_); }

 private:
  bool IsNic(const std::string& address) const {
    return of_function_.count(address) != 0 || functions_.IsNetworkClass(address);
  }
  void AddFunction(const std::string& address);
  void GiveRdma(Nic& nic, bool among_several);
  void Problem(const std::string& subject, const std::string& message) {
    problems_.push_back({subject, message});
  }
  const HeldNic* HeldOf(const std::string& identity) const {
    const auto found = held_.find(identity);
    return found == held_.end() ? nullptr : &found->second;
  }
  // What the host does not see of a NIC that a pod holds.
  void AddNote(Nic& nic, const HeldNic& held) {
    if (!nic.netdev) nic.netdev = held.netdev;
    if (!nic.rdma) nic.rdma = held.rdma;
  }
  std::vector<Nic*> OnFunction(const std::string& address) {
    std::vector<Nic*> result;
    for (Nic& nic : nics_) {
      if (nic.pci_address == address) result.push_back(&nic);
    }
    return result;
  }

  const dra::Sysfs& sys_;
  const std::map<std::string, HeldNic>& held_;
  PciFunctions functions_;
  std::vector<RdmaEntry> entries_;
  Interfaces interfaces_;
  std::map<std::string, std::vector<RdmaEntry*>> of_function_;
  std::vector<RdmaEntry*> loose_;  // of software and of subfunctions
  std::map<std::string, std::vector<const Link*>> links_of_function_;
  std::vector<Interfaces::Interface> virtual_;
  std::vector<Nic> nics_;
  std::set<std::string> on_host_;  // identities of those whose interface the host sees
  std::vector<NicProblem> problems_;
};

void Look::AddFunction(const std::string& address) {
  const auto function = functions_.Read(address);
  if (!function) return;
  Nic base;
  base.pci_address = address;
  base.vendor = function->vendor;
  base.device = function->device;
  base.subsystem_vendor = function->subsystem_vendor;
  base.subsystem_device = function->subsystem_device;
  base.driver = function->driver;
  base.physical_function = function->physical_function;
  base.virtual_functions = function->virtual_functions;
  base.pf_address = function->pf_address;
  base.vf_index = function->vf_index;

  std::map<int64_t, std::vector<Netdev>> by_port;
  for (const Link* link : links_of_function_[address]) {
    Netdev netdev = interfaces_.NetdevOf(*link);
    by_port[netdev.dev_port].push_back(std::move(netdev));
  }
  const std::string held_prefix = PciIdentity(address, 0);
  for (auto held = held_.lower_bound(held_prefix); held != held_.end(); ++held) {
    if (held->first != held_prefix && held->first.rfind(held_prefix + "/", 0) != 0) break;
    by_port.try_emplace(PortOfIdentity(held->first, held_prefix));
  }
  if (by_port.empty()) {
    if (interfaces_.unsettled().count(address) != 0) {
      return Problem(PciIdentity(address, 0),
                     "its interface appeared while the node was looked at; looked at again soon");
    }
    by_port.try_emplace(0);
  }
  for (auto& [port, netdevs] : by_port) {
    Nic nic = base;
    nic.port = port;
    nic.name = PciNicName(address, port);
    nic.identity = PciIdentity(address, port);
    if (netdevs.size() > 1) {
      Problem(nic.identity, "interfaces " + netdevs[0].link.name + " and " + netdevs[1].link.name +
                                " of function " + address + " both have the dev_port " +
                                std::to_string(port) +
                                ": they cannot be told apart for good, and neither is offered");
      continue;
    }
    if (!netdevs.empty()) {
      nic.netdev = std::move(netdevs.front());
      on_host_.insert(nic.identity);
    }
    // The note's interface counts for the choice of the port too.
    const HeldNic* held = HeldOf(nic.identity);
    if (held != nullptr) AddNote(nic, {held->netdev, std::nullopt});
    GiveRdma(nic, by_port.size() > 1);
    if (held != nullptr) AddNote(nic, *held);
    nics_.push_back(std::move(nic));
  }
}

void Look::GiveRdma(Nic& nic, bool among_several) {
  const auto found = of_function_.find(nic.pci_address);
  if (found == of_function_.end()) return;
  const std::vector<RdmaEntry*>& entries = found->second;
  RdmaEntry* chosen = entries.front();
  if (entries.size() > 1) {
    // Several devices of one function: the GIDs tell whose is whose, else their order.
    RdmaEntry* by_gid = nullptr;
    for (RdmaEntry* entry : entries) {
      ReadGidNetdevs(sys_, entry->device);
      if (nic.netdev && HasGidOf(entry->device, nic.netdev->link.name)) by_gid = entry;
    }
    if (by_gid != nullptr) {
      chosen = by_gid;
    } else if (among_several && static_cast<size_t>(nic.port) < entries.size()) {
      chosen = entries[static_cast<size_t>(nic.port)];
    }
  }
  nic.rdma = nic.netdev ? OnlyPort(*chosen, nic.port + 1) : chosen->device;
}

void Look::AddVirtualInterfaces() {
  std::set<const RdmaEntry*> given;
  for (RdmaEntry* entry : loose_) ReadGidNetdevs(sys_, entry->device);
  for (const Interfaces::Interface& interface : virtual_) {
    Nic nic;
    nic.name = VirtualNicName(interface.link->name);
    nic.identity = kVirtualPrefix + interface.link->name;
    nic.netdev = interfaces_.NetdevOf(*interface.link);
    on_host_.insert(nic.identity);
    for (const RdmaEntry* entry : loose_) {
      const bool own = entry->place.IsSubFunction() &&
                       entry->place.function == interface.place.function &&
                       entry->place.child == interface.place.child;
      if (own || (!entry->place.IsSubFunction() && HasGidOf(entry->device, interface.link->name))) {
        nic.rdma = entry->device;
        given.insert(entry);
      }
    }
    nics_.push_back(std::move(nic));
  }
  // A device of software may lie on a card without one of its own.
  for (const RdmaEntry* entry : loose_) {
    if (entry->place.IsSubFunction() || given.count(entry) != 0) continue;
    for (Nic& nic : nics_) {
      if (!nic.rdma && nic.netdev && HasGidOf(entry->device, nic.netdev->link.name))
        nic.rdma = entry->device;
    }
  }
}

void Look::AddHeldVirtualInterfaces() {
  std::set<std::string> seen;
  for (Nic& nic : nics_) {
    seen.insert(nic.identity);
    if (nic.pci_address.empty()) {
      if (const HeldNic* held = HeldOf(nic.identity)) AddNote(nic, *held);
    }
  }
  for (const auto& [identity, held] : held_) {
    if (identity.rfind(kVirtualPrefix, 0) != 0 || seen.count(identity) != 0 || !held.netdev)
      continue;
    Nic nic;
    nic.name = VirtualNicName(identity.substr(sizeof(kVirtualPrefix) - 1));
    nic.identity = identity;
    nic.netdev = held.netdev;
    nic.rdma = held.rdma;
    nics_.push_back(std::move(nic));
  }
}

void Look::RelateInterfaces() {
  // Indexes of a note are another time's, or another namespace's.
  std::map<int, Nic*> by_index;
  for (Nic& nic : nics_) {
    if (on_host_.count(nic.identity) != 0) by_index[nic.netdev->link.index] = &nic;
  }
  for (const auto& [index, on_host] : by_index) {
    Nic& nic = *on_host;
    const Link& link = nic.netdev->link;
    nic.enslaved = link.master != 0;
    const Link* master = nic.enslaved ? interfaces_.Find(link.master) : nullptr;
    if (master != nullptr) {
      nic.master = master->name;
      if (master->kind == "bond") nic.bond = master->name;
      const auto above = by_index.find(link.master);
      if (above != by_index.end() && !nic.pci_address.empty()) AddMember(*above->second, nic);
    }
    if (nic.pci_address.empty() && link.parent != 0 && !link.parent_elsewhere) {
      const auto below = by_index.find(link.parent);
      if (below != by_index.end() && !below->second->pci_address.empty()) {
        AddMember(nic, *below->second);
      }
    }
  }
  // RoCE of a bond is one device on its first member, whose GIDs are the bond's.
  for (Nic& bond : nics_) {
    std::sort(bond.members.begin(), bond.members.end());
    std::sort(bond.member_pfs.begin(), bond.member_pfs.end());
    if (on_host_.count(bond.identity) == 0 || bond.netdev->link.kind != "bond" || bond.rdma)
      continue;
    std::vector<Nic*> with_rdma;
    Nic* by_gid = nullptr;
    for (const std::string& address : bond.members) {
      for (Nic* member : OnFunction(address)) {
        if (member->bond != bond.netdev->link.name || !member->rdma) continue;
        ReadGidNetdevs(sys_, *member->rdma);
        with_rdma.push_back(member);
        if (HasGidOf(*member->rdma, bond.netdev->link.name)) by_gid = member;
      }
    }
    if (by_gid == nullptr && with_rdma.size() == 1 && bond.members.size() > 1)
      by_gid = with_rdma.front();
    if (by_gid == nullptr) continue;
    bond.rdma = std::move(by_gid->rdma);
    by_gid->rdma.reset();
  }
}

void Look::RelateFunctions() {
  std::map<std::string, Nic*> physical;
  for (Nic& nic : nics_) {
    if (!nic.pci_address.empty() && nic.port == 0) physical[nic.pci_address] = &nic;
  }
  for (Nic& nic : nics_) {
    const auto found = physical.find(nic.pf_address);
    if (nic.pf_address.empty() || found == physical.end() || !found->second->netdev) continue;
    nic.pf_interface = found->second->netdev->link.name;
    if (nic.netdev && nic.netdev->default_route) found->second->netdev->default_route = true;
  }
}

void Look::CheckNodes(const std::string& dev) {
  std::set<std::string> told;
  for (Nic& nic : nics_) {
    if (!nic.rdma) continue;
    const auto why = WhyUnusable(*nic.rdma, dev);
    nic.rdma->unusable = why.value_or("");
    // Once for a node that all lack; not under a device's own name, which would keep it as it was.
    if (why && told.insert(*why).second) Problem(dev + "/infiniband", *why);
  }
}

}  // namespace

NodeNics LookAtNode(const dra::Sysfs& sys, const std::string& dev, const KernelNetwork& kernel,
                    const std::map<std::string, HeldNic>& held,
                    const std::function<void()>& check) {
  NodeNics node;
  Look look(sys, kernel, held);
  look.AddFunctions(check);
  look.AddVirtualInterfaces();
  look.AddHeldVirtualInterfaces();
  look.RelateInterfaces();
  look.RelateFunctions();
  look.CheckNodes(dev);
  node.nics = look.TakeNics();
  node.problems = look.TakeProblems();
  node.rdma_mode = kernel.rdma_mode;
  std::error_code error;
  node.rdma_cm = std::filesystem::exists(dev + "/infiniband/rdma_cm", error);
  return node;
}

}  // namespace rdma
