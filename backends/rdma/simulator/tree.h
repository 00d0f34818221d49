#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Lays out what Linux shows of network cards in /sys and /dev, from plain values. Real directories, files and links, as
// the kernel's: class entries are links into /sys/devices, so that what walks them upwards finds the PCI function.
// Sources: linux Documentation/ABI/testing/sysfs-class-net, sysfs-bus-pci, stable/sysfs-class-infiniband.
namespace rdma_simulator {

// An interface. What sysfs does not show of it (kind, addresses) is for whoever plays netlink.
struct Interface {
  std::string name;
  int index = 0;
  uint16_t type = 1;  // ARPHRD_ETHER; 32 InfiniBand
  std::string address = "02:00:5e:00:53:01";
  uint32_t mtu = 1500;
  std::string state = "up";
  std::optional<int64_t> speed_mbps;  // nullopt: as while the link is down
  int64_t dev_port = 0;
  int64_t dev_id = 0;
  std::string physical_port_name, physical_switch_id;
  std::string alias;
  std::string kind;    // "veth", "bond", "vlan", "ipoib", ...; "" for plain hardware
  std::string master;  // name of the interface that it is a port of
  std::string parent;  // name of the interface that it lies on
  std::vector<std::string> alternative_names;
  std::vector<std::string> cidrs;
};

struct Gid {
  std::string gid;     // eight groups
  std::string netdev;  // "" = none
  std::string type = "RoCE v2";
};

struct Port {
  std::string link_layer = "Ethernet";
  std::string state = "4: ACTIVE";
  std::string physical_state = "5: LinkUp";
  std::string rate = "100 Gb/sec (4X EDR)";
  std::vector<Gid> gids;
};

// An entry of /sys/class/infiniband. A text that is empty has no file.
struct RdmaDevice {
  std::string name;
  std::string node_type = "1: CA";
  std::string node_guid = "0000:0000:0000:0000", system_image_guid = "0000:0000:0000:0000";
  std::string firmware, board_id, hca_type;
  std::vector<Port> ports;      // numbers 1, 2, ...
  std::optional<int> uverbs;    // its number
  std::vector<int> umad, issm;  // numbers, one a port; fewer: the others have none
};

// What lies between a function and its interfaces: "virtio0", or an auxiliary device such as "mlx5_core.sf.4".
struct ChildDevice {
  std::string name;
  std::string bus;  // "virtio", "auxiliary"
  std::vector<Interface> interfaces;
  std::vector<RdmaDevice> rdma;
};

struct Function {
  std::string address;               // "0000:8d:00.0"
  std::string root = "pci0000:00";   // host bridge
  std::vector<std::string> bridges;  // addresses from the root port down
  std::string vendor = "0x15b3", device = "0x101e", subsystem_vendor = "0x15b3",
              subsystem_device = "0x0001";
  std::string pci_class = "0x020000";
  int numa_node = 0;
  std::string driver = "mlx5_core";  // "" = none
  std::vector<Interface> interfaces;
  std::vector<RdmaDevice> rdma;
  std::vector<ChildDevice> children;
  std::optional<int> total_vfs;   // of a physical function
  std::string physical_function;  // of a virtual one: its physical function's address
};

struct Node {
  std::vector<Function> functions = {};
  std::vector<Interface> virtual_interfaces = {};
  std::vector<RdmaDevice> software_rdma = {};  // rxe, siw: they have no device below
  bool rdma_cm = true;
  bool device_nodes = true;  // false: sysfs knows them, /dev does not
  std::string pci_ids = {};  // text of /usr/share/misc/pci.ids; "" = none
};

// Writes <root>/sys, <root>/dev and, where asked for, <root>/usr/share/misc/pci.ids; what the first two had is gone.
// Device nodes are real ones where this process may make them, else plain files: returns whether they are real.
// Virtual functions are numbered in the order of `functions`. Throws std::runtime_error with path and reason.
bool WriteTree(const Node& node, const std::string& root);

}  // namespace rdma_simulator
