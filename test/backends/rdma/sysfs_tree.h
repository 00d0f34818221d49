#pragma once

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "discovery.h"
#include "dra/backend/sysfs.h"
#include "gtest/gtest.h"
#include "links_source.h"
#include "nic.h"
#include "simulator/tree.h"

namespace rdma {

// A node's /sys and /dev in a directory of its own, and what netlink would say of it.
class SysfsTree {
 public:
  explicit SysfsTree(rdma_simulator::Node first = {}) : node(std::move(first)) {
    std::string name = (std::filesystem::temp_directory_path() / "rdma-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    root_ = name;
    Write();
  }
  ~SysfsTree() {
    std::error_code error;
    std::filesystem::remove_all(root_, error);
  }
  SysfsTree(const SysfsTree&) = delete;
  SysfsTree& operator=(const SysfsTree&) = delete;

  rdma_simulator::Node node;     // change it, then Write
  std::set<int> default_routes;  // interfaces
  std::optional<RdmaNamespaceMode> mode = RdmaNamespaceMode::kShared;

  // Lays the node out anew.
  void Write() { real_nodes_ = rdma_simulator::WriteTree(node, root_); }
  bool real_nodes() const { return real_nodes_; }
  const std::string& root() const { return root_; }
  std::string dev() const { return root_ + "/dev"; }
  dra::Sysfs sys() const { return dra::Sysfs(root_ + "/sys"); }
  void Remove(const std::string& path) { std::filesystem::remove_all(root_ + "/" + path); }

  void DefaultRoute(const std::string& interface) { default_routes.insert(IndexOf(interface)); }
  int IndexOf(const std::string& interface) const {
    for (const Link& link : Kernel().links) {
      if (link.name == interface) return link.index;
    }
    ADD_FAILURE() << "no interface " << interface;
    return -1;
  }

  KernelNetwork Kernel() const {
    KernelNetwork kernel;
    for (const rdma_simulator::Function& function : node.functions) {
      Add(kernel, function.interfaces, "pci", function.address);
      for (const rdma_simulator::ChildDevice& child : function.children) {
        Add(kernel, child.interfaces, child.bus, child.name);
      }
    }
    Add(kernel, node.virtual_interfaces, "", "");
    std::map<std::string, int> indexes;
    for (const Link& link : kernel.links) indexes[link.name] = link.index;
    const auto relate = [&](const std::vector<rdma_simulator::Interface>& interfaces) {
      for (const rdma_simulator::Interface& interface : interfaces) {
        for (Link& link : kernel.links) {
          if (link.name != interface.name) continue;
          if (!interface.master.empty()) link.master = indexes.at(interface.master);
          if (!interface.parent.empty()) link.parent = indexes.at(interface.parent);
        }
      }
    };
    for (const rdma_simulator::Function& function : node.functions) {
      relate(function.interfaces);
      for (const rdma_simulator::ChildDevice& child : function.children) relate(child.interfaces);
    }
    relate(node.virtual_interfaces);
    kernel.default_route_interfaces = default_routes;
    kernel.rdma_mode = mode;
    return kernel;
  }

  NodeNics Look(const std::map<std::string, HeldNic>& held = {}) const {
    return LookAtNode(sys(), dev(), Kernel(), held, [] {});
  }

 private:
  static void Add(KernelNetwork& kernel, const std::vector<rdma_simulator::Interface>& interfaces,
                  const std::string& bus, const std::string& device) {
    for (const rdma_simulator::Interface& interface : interfaces) {
      Link link;
      link.index = interface.index;
      link.name = interface.name;
      link.alternative_names = interface.alternative_names;
      link.alias = interface.alias;
      link.type = interface.type;
      link.kind = interface.kind;
      link.address = interface.address;
      link.permanent_address = interface.address;
      link.mtu = interface.mtu;
      link.up = interface.state != "down";
      link.state = interface.state;
      link.parent_bus = bus;
      link.parent_device = device;
      link.physical_port_name = interface.physical_port_name;
      link.physical_switch_id = interface.physical_switch_id;
      kernel.links.push_back(link);
      for (const std::string& cidr : interface.cidrs) {
        InterfaceAddress& address = kernel.addresses.emplace_back();
        address.index = link.index;
        address.cidr = cidr;
      }
    }
  }

  std::string root_;
  bool real_nodes_ = false;
};

inline const Nic* Find(const NodeNics& node, const std::string& name) {
  for (const Nic& nic : node.nics) {
    if (nic.name == name) return &nic;
  }
  return nullptr;
}

inline std::vector<std::string> Names(const NodeNics& node) {
  std::vector<std::string> names;
  for (const Nic& nic : node.nics) names.push_back(nic.name);
  return names;
}

}  // namespace rdma
