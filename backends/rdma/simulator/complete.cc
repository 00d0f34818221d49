// What a model does not say of its devices, and what cannot be.

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "cards.h"
#include "dra/backend/pci.h"
#include "model.h"

namespace rdma_simulator {
namespace {

constexpr size_t kMaxNameBytes = 15;  // IFNAMSIZ - 1
constexpr int kFirstIndex = 1000001;  // far from what the machine's own interfaces have
constexpr char kSubnetPrefix[] = "fe80:0000:0000:0000:";

// FNV-1a: the same on every machine.
uint64_t Hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string Octets(uint64_t bits, int count, const char* separator, int group) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    char octet[3];
    std::snprintf(octet, sizeof(octet), "%02x",
                  static_cast<unsigned>(bits >> (8 * (count - 1 - i)) & 0xff));
    text += (i != 0 && i % group == 0 ? separator : "") + std::string(octet);
  }
  return text;
}

// Locally administered, no multicast.
std::string MacOf(const std::string& what) {
  return Octets((Hash(what) & 0xffffffffff) | 0x020000000000, 6, ":", 1);
}
std::string GuidOf(const std::string& what) {
  return Octets((Hash(what) & 0x00ffffffffffffff) | 0x0200000000000000, 8, ":", 2);
}
std::string WithColons(const std::string& guid) {
  std::string text;
  for (const char c : guid)
    if (c != ':') text += (text.size() % 3 == 2 ? ":" : "") + std::string(1, c);
  return text;
}
// "02:00:5e:00:53:01" is "0000:5eff:fe00:5301".
std::string GuidOfMac(const std::string& mac) {
  if (mac.size() != 17) return GuidOf(mac);
  const unsigned first = static_cast<unsigned>(std::stoul(mac.substr(0, 2), nullptr, 16)) ^ 2;
  char head[3];
  std::snprintf(head, sizeof(head), "%02x", first);
  return head + mac.substr(3, 2) + ":" + mac.substr(6, 2) + "ff:fe" + mac.substr(9, 2) + ":" +
         mac.substr(12, 2) + mac.substr(15, 2);
}

class Completion {
 public:
  Completion(Node& node, std::string seed) : node_(node), seed_(std::move(seed)) {}

  void Run() {
    EachInterface(node_, [&](const Interface& interface) { Note(interface); });
    EachRdma(node_, [&](const RdmaDevice& device) { Note(device); });
    std::set<std::string> addresses;
    for (const Function& function : node_.functions)
      Once(addresses, function.address, "PCI address");
    EachInterface(node_, [&](Interface& interface) {
      RequireInterface(interface, "master", interface.master);
      RequireInterface(interface, "parent", interface.parent);
      CompleteInterface(interface);
    });
    for (const Function& function : node_.functions) {
      if (!function.physical_function.empty() && !addresses.contains(function.physical_function))
        throw std::invalid_argument("physicalFunction of function " + function.address +
                                    ": there is no function \"" + function.physical_function +
                                    "\"");
    }
    for (Function& function : node_.functions) {
      CompleteAll(function.rdma, function.interfaces);
      for (ChildDevice& child : function.children) CompleteAll(child.rdma, child.interfaces);
    }
    CompleteAll(node_.software_rdma, {});
    // An IPoIB interface has the GUID of its port.
    for (Function& function : node_.functions)
      for (Interface& interface : function.interfaces) CompleteIpoib(function, interface);
  }

 private:
  template <typename Value>
  static void Once(std::set<Value>& seen, const Value& value, const std::string& what) {
    if (seen.insert(value).second) return;
    if constexpr (std::is_same_v<Value, int>)
      throw std::invalid_argument("two have the " + what + " " + std::to_string(value));
    else
      throw std::invalid_argument("two have the " + what + " \"" + value + "\"");
  }
  void Note(const Interface& interface) {
    Once(names_, interface.name, "interface name");
    if (interface.index != 0) Once(indexes_, interface.index, "interface index");
  }
  void Note(const RdmaDevice& device) {
    Once(rdma_names_, device.name, "RDMA device name");
    if (device.uverbs) Once(uverbs_, *device.uverbs, "uverbs number");
    for (const int number : device.umad) Once(umad_, number, "umad number");
    for (const int number : device.issm) Once(issm_, number, "issm number");
  }
  void RequireInterface(const Interface& interface, const char* key,
                        const std::string& other) const {
    if (other.empty() || names_.contains(other)) return;
    throw std::invalid_argument(std::string(key) + " of interface " + interface.name +
                                ": there is no interface \"" + other + "\"");
  }
  static int Next(std::set<int>& taken, int first) {
    while (!taken.insert(first).second) ++first;
    return first;
  }

  void CompleteInterface(Interface& interface) {
    if (interface.index == 0) interface.index = Next(indexes_, kFirstIndex);
    if (interface.address.empty() && interface.type == 1)
      interface.address = MacOf(seed_ + "/" + interface.name);
    if (interface.state == "down") interface.speed_mbps.reset();
  }

  void CompleteAll(std::vector<RdmaDevice>& rdma, const std::vector<Interface>& interfaces) {
    for (RdmaDevice& device : rdma) CompleteRdma(device, interfaces);
  }
  void CompleteRdma(RdmaDevice& device, const std::vector<Interface>& interfaces) {
    if (device.ports.empty()) device.ports.emplace_back();
    if (device.node_guid.empty()) device.node_guid = GuidOf(seed_ + "/" + device.name);
    if (device.system_image_guid.empty()) device.system_image_guid = device.node_guid;
    if (!device.uverbs) device.uverbs = Next(uverbs_, 0);
    const bool umad_given = !device.umad.empty(), issm_given = !device.issm.empty();
    for (size_t i = 0; i < device.ports.size(); ++i) {
      Port& port = device.ports[i];
      // EFA has no management datagrams.
      if (!umad_given && port.link_layer != "Unknown") {
        const int number = Next(umad_, 0);
        device.umad.push_back(number);
        if (!issm_given && port.link_layer == "InfiniBand") {
          Once(issm_, number, "issm number");
          device.issm.push_back(number);
        }
      }
      if (port.gids.empty()) AddGids(device.name, i, interfaces, port);
    }
  }
  void AddGids(const std::string& device, size_t number, const std::vector<Interface>& interfaces,
               Port& port) {
    if (port.link_layer != "Ethernet") {
      port.gids = {{kSubnetPrefix + GuidOf(seed_ + "/" + device + "/" + std::to_string(number)), "",
                    port.link_layer == "InfiniBand" ? "IB/RoCE v1" : ""}};
      return;
    }
    for (const Interface& interface : interfaces) {
      if (interface.dev_port != static_cast<int64_t>(number) || interface.type != 1) continue;
      // RoCE of a bond is the bond's.
      const std::string& netdev = interface.master.empty() ? interface.name : interface.master;
      const std::string gid = kSubnetPrefix + GuidOfMac(interface.address);
      port.gids = {{gid, netdev, "IB/RoCE v1"}, {gid, netdev, "RoCE v2"}};
      return;
    }
  }
  void CompleteIpoib(const Function& function, Interface& interface) {
    if (interface.type == 1 || !interface.address.empty()) return;
    std::string guid = GuidOf(seed_ + "/" + interface.name);
    const auto port = static_cast<size_t>(interface.dev_port);
    if (!function.rdma.empty() && port < function.rdma.front().ports.size() &&
        !function.rdma.front().ports[port].gids.empty())
      guid = function.rdma.front().ports[port].gids.front().gid.substr(sizeof(kSubnetPrefix) - 1);
    interface.address = "00:00:10:29:fe:80:00:00:00:00:00:00:" + WithColons(guid);
  }

  Node& node_;
  const std::string seed_;
  std::set<std::string> names_, rdma_names_;
  std::set<int> indexes_, uverbs_, umad_, issm_;
};

// ens1f0np0 has ens1f0v3.
std::string VfInterfaceName(std::string name, int number) {
  const size_t port = name.rfind("np");
  if (port != std::string::npos && port + 2 < name.size() &&
      name.find_first_not_of("0123456789", port + 2) == std::string::npos)
    name.resize(port);
  const std::string end = "v" + std::to_string(number);
  return name.substr(0, kMaxNameBytes - end.size()) + end;
}

// mlx5_0 has the next mlx5_<n> that is free; rocep75s0, which is named by its place, rocep75s0v3.
std::string VfRdmaName(const std::string& name, int number, const std::set<std::string>& taken) {
  const std::string stem = name.substr(0, name.find_last_not_of("0123456789") + 1);
  if (stem.empty() || (stem.back() != '_' && stem != "bnxt_re"))
    return name + "v" + std::to_string(number);
  for (int next = 0;; ++next)
    if (!taken.contains(stem + std::to_string(next))) return stem + std::to_string(next);
}

// The routing ids behind the physical function's are its virtual functions', as far as nothing else has them.
std::string VfAddress(const std::string& pf_address, const std::set<std::string>& taken) {
  dra::PciAddress address = *dra::ParsePciAddress(pf_address);
  for (;;) {
    address.function = static_cast<uint8_t>((address.function + 1) % 8);
    if (address.function == 0) {
      address.device = static_cast<uint8_t>((address.device + 1) % 32);
    }
    if (address.function == 0 && address.device == 0) ++address.bus;
    if (!taken.contains(address.ToString())) return address.ToString();
  }
}

Function MakeVf(const State& state, const Function& pf, int number) {
  std::set<std::string> rdma_names, addresses;
  EachRdma(state.node, [&](const RdmaDevice& device) { rdma_names.insert(device.name); });
  for (const Function& function : state.node.functions) addresses.insert(function.address);
  Function vf = pf;
  vf.address = VfAddress(pf.address, addresses);
  vf.physical_function = pf.address;
  vf.total_vfs.reset();
  vf.children.clear();
  const auto card = state.cards.find(pf.address);
  if (card != state.cards.end()) {
    const Json over = CardOf(card->second).value("vf", Json::object());
    vf.device = over.value("device", vf.device);
    vf.driver = over.value("driver", vf.driver);
  }
  if (vf.interfaces.size() > 1) vf.interfaces.resize(1);
  if (vf.rdma.size() > 1) vf.rdma.resize(1);
  for (Interface& interface : vf.interfaces) {
    Interface made;
    made.name = VfInterfaceName(interface.name, number);
    made.type = interface.type;
    made.kind = interface.kind;
    made.mtu = interface.mtu;
    made.speed_mbps = interface.speed_mbps;
    made.address = "";
    interface = std::move(made);
  }
  for (RdmaDevice& device : vf.rdma) {
    device.name = VfRdmaName(device.name, number, rdma_names);
    device.node_guid = device.system_image_guid = "";
    device.uverbs.reset();
    device.umad.clear();
    device.issm.clear();
    device.ports.resize(1);
    device.ports.front().gids.clear();
  }
  return vf;
}

}  // namespace

void Complete(Node& node, const std::string& seed) { Completion(node, seed).Run(); }

void SetVirtualFunctions(State& state, const std::string& address, int count) {
  const auto pf = std::find_if(state.node.functions.begin(), state.node.functions.end(),
                               [&](const Function& each) { return each.address == address; });
  if (pf == state.node.functions.end())
    throw std::invalid_argument("there is no function \"" + address + "\"");
  if (!pf->total_vfs)
    throw std::invalid_argument("function " + address + " can have no virtual ones (totalVfs)");
  if (count < 0 || count > *pf->total_vfs) {
    throw std::invalid_argument(std::to_string(count) + " is not in 0.." +
                                std::to_string(*pf->total_vfs) + ", the totalVfs of function " +
                                address);
  }
  int there = 0;
  std::erase_if(state.node.functions, [&](const Function& function) {
    return function.physical_function == address && ++there > count;
  });
  for (; there < count; ++there) {
    const auto physical =
        std::find_if(state.node.functions.begin(), state.node.functions.end(),
                     [&](const Function& each) { return each.address == address; });
    const Function vf = MakeVf(state, *physical, there);
    state.node.functions.push_back(vf);
  }
  Complete(state.node, state.seed);
}

}  // namespace rdma_simulator
