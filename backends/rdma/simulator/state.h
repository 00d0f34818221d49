#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "node_json.h"
#include "tree.h"

namespace rdma_simulator {

// What stands in /dev/infiniband.
enum class NodeKind {
  kStandIns,  // character devices with the number of /dev/null
  kReal,      // with the numbers of the RDMA subsystem
  kLinks,     // symbolic links to /dev/null, which need no right
};

// A veth end that a program of this machine sees as the interface.
struct RealLink {
  std::string peer;  // name of its other end
  int index = 0;     // in the host's namespace; 0: it is elsewhere
};

// A simulated host: what its model has, and what became of it. It stands in <root>/.rdma-simulator.json.
struct State {
  Node node;
  std::string seed = "simulated";
  std::map<std::string, std::string> cards;  // name of the card, by address
  std::set<std::string> unplugged;           // addresses
  std::map<std::string, std::string>
      bound;                            // driver by address, where it is not its own; "" = none
  std::set<std::string> missing_rdma;   // names
  std::set<std::string> missing_nodes;  // "uverbs0"
  NodeKind nodes = NodeKind::kStandIns;
  bool links_made = false;
  std::string wire;  // file of the network namespace with the other ends; "" = the same
  std::map<std::string, RealLink> links;  // by name of the interface
  std::vector<std::string> paths;         // written, below root
};

Json ToJson(const State& state);
// Throw std::runtime_error with path and what to do.
State ReadState(const std::string& root);
void WriteState(const std::string& root, const State& state);

// What there is to be seen of it: without what is unplugged, missing, away, or held by another driver.
Node Visible(const State& state);

// Every function's and every virtual interface of the node, and every RDMA device.
template <typename NodeType, typename Visit>
void EachInterface(NodeType&& node, const Visit& visit) {
  for (auto& function : node.functions) {
    for (auto& interface : function.interfaces) visit(interface);
    for (auto& child : function.children)
      for (auto& interface : child.interfaces) visit(interface);
  }
  for (auto& interface : node.virtual_interfaces) visit(interface);
}
template <typename NodeType, typename Visit>
void EachRdma(NodeType&& node, const Visit& visit) {
  for (auto& function : node.functions) {
    for (auto& rdma : function.rdma) visit(rdma);
    for (auto& child : function.children)
      for (auto& rdma : child.rdma) visit(rdma);
  }
  for (auto& rdma : node.software_rdma) visit(rdma);
}

// Held while a host is changed: one program at a time.
class RootLock {
 public:
  explicit RootLock(const std::string& root);
  ~RootLock();
  RootLock(const RootLock&) = delete;
  RootLock& operator=(const RootLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace rdma_simulator
