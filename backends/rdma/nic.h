#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "addresses.h"
#include "links.h"
#include "nlohmann/json.hpp"
#include "rdma_links.h"

namespace rdma {

struct RdmaPort {
  int number = 0;
  std::string link_layer;            // "InfiniBand", "Ethernet", "Unknown"
  std::string state;                 // "ACTIVE", "DOWN", "INIT", ...
  std::string physical_state;        // "LinkUp", "Disabled", ...
  std::optional<int64_t> rate_mbps;  // "400 Gb/sec (4X NDR)" is 400000, "2.5 Gb/sec (1X)" is 2500
  std::string port_guid;  // low half of GID 0, "xxxx:xxxx:xxxx:xxxx"; "" where that is zero
  // Names of interfaces, each once. Only read where an interface's RDMA device is not clear without: a port has up to
  // 256 GIDs.
  std::vector<std::string> gid_netdevs;
};

// The nodes of one RDMA device below /dev, without "/dev/": "infiniband/uverbs0".
struct RdmaCharDevices {
  std::string uverbs;
  std::vector<std::string> umad, issm;  // one a port
};

// One entry of /sys/class/infiniband. Optional data is "" or nullopt.
struct RdmaDevice {
  std::string name;       // "mlx5_0"
  std::string node_type;  // "CA", "RNIC", ...
  std::string node_guid, system_image_guid;
  std::string firmware, board_id, hca_type;
  std::vector<RdmaPort> ports;
  RdmaCharDevices chars;
  // Why no pod can use it now: "/dev/infiniband/rdma_cm is missing: load the kernel module rdma_ucm"; "" = it can.
  std::string unusable;
};

// A network interface of the host.
struct Netdev {
  Link link;
  std::optional<int64_t> speed_mbps;  // nullopt while the link is down
  int64_t dev_port = 0;
  std::vector<InterfaceAddress> addresses;
  bool default_route =
      false;  // a default route, IPv4 or IPv6, leads through it or through what lies on it
};

// What is noted of a NIC that a pod holds: the host may not see these any more.
struct HeldNic {
  std::optional<Netdev> netdev;
  std::optional<RdmaDevice> rdma;  // gone too where RDMA devices belong to one namespace each
};

// One thing that a claim can get: a PCI function's interface or RDMA device, or a virtual interface.
struct Nic {
  std::string name;  // in the slice; see NicName
  std::string
      identity;  // "pci:0000:8d:00.0", "pci:0000:8d:00.0/1" for the interface of a second port, "net:bond0"
  std::string pci_address;  // "" for a virtual one
  int64_t port = 0;         // of the function: dev_port of its interface
  std::string vendor, device, subsystem_vendor, subsystem_device;  // "0x15b3"; "" if not said
  std::string driver;              // of the kernel: "mlx5_core"; "" = none
  bool physical_function = false;  // it can have virtual functions
  int64_t virtual_functions = 0;   // that it has now
  std::string pf_address;          // of a virtual function
  std::string pf_interface;        // likewise
  int64_t vf_index = -1;
  std::optional<Netdev> netdev;
  std::optional<RdmaDevice> rdma;
  // PCI addresses of the functions that a virtual one lies on: a bond's members, the parent of a vlan or macvlan.
  std::vector<std::string> members;
  std::vector<std::string> member_pfs;  // the physical functions of those of them that are virtual
  std::string bond;                     // name of the bond that it is a member of
  bool enslaved = false;                // it is a port of a bridge, bond or the like
  std::string master;                   // name of that; "" if it is not seen
};

// Something that could not be looked at, or cannot be offered, and costs only itself.
struct NicProblem {
  std::string subject;  // identity or path
  std::string message;
};

struct NodeNics {
  std::vector<Nic> nics;  // sorted by name
  std::vector<NicProblem> problems;
  std::optional<RdmaNamespaceMode> rdma_mode;  // nullopt: no RDMA subsystem, or it does not say
  bool rdma_cm = false;                        // /dev/infiniband/rdma_cm is there
};

// "pci-0000-8d-00-0", "pci-0000-8d-00-0-p1": by where it sits, so that neither renaming nor another order changes it.
// "net-bond0": a virtual interface; "netx-<base32hex>" where its name is no DNS label. Different things have different
// names, and the name of the interface can be read back; nullopt where it is none of these.
std::string PciNicName(const std::string& pci_address, int64_t port);
std::string VirtualNicName(const std::string& interface);
std::optional<std::string> InterfaceOfName(const std::string& nic_name);

// "physical", "virtualFunction", "subFunction" (of an auxiliary device); a virtual interface's is what the kernel calls
// it ("bond", "vlan", "macvlan", "veth", ...), "device" where it calls it nothing.
std::string KindOf(const Nic& nic);
// "ethernet", "infiniband"; "" where neither is known (EFA).
std::string LinkLayerOf(const Nic& nic);
// Of the interface, else of the RDMA port; nullopt where it is not known, as while the link is down.
std::optional<int64_t> RateMbpsOf(const Nic& nic);

// As JSON, and back: the note of a NIC that a pod holds. Texts that are not UTF-8 survive. FromJson throws
// std::exception.
nlohmann::json ToJson(const Netdev& netdev);
Netdev NetdevFromJson(const nlohmann::json& json);
nlohmann::json ToJson(const HeldNic& held);
HeldNic HeldNicFromJson(const nlohmann::json& json);

}  // namespace rdma
