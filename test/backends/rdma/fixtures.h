#pragma once

#include <string>

#include "simulator/tree.h"

// Cards as their drivers show them. Ids of vendors and cards: pci.ids.
namespace rdma_simulator {

inline Port RocePort(const std::string& netdev, const std::string& guid = "0200:5eff:fe00:5301") {
  Port port;
  port.gids = {{"fe80:0000:0000:0000:" + guid, netdev, "IB/RoCE v1"},
               {"fe80:0000:0000:0000:" + guid, netdev, "RoCE v2"}};
  return port;
}

inline Port InfiniBandPort(const std::string& guid, const std::string& netdev = "") {
  Port port;
  port.link_layer = "InfiniBand";
  port.rate = "400 Gb/sec (4X NDR)";
  port.gids = {{"fe80:0000:0000:0000:" + guid, netdev, "IB/RoCE v1"}};
  return port;
}

inline RdmaDevice Mlx5(int number, std::vector<Port> ports) {
  RdmaDevice device;
  device.name = "mlx5_" + std::to_string(number);
  device.node_guid = "9803:9b03:0067:ab5" + std::to_string(number % 10);
  device.system_image_guid = "9803:9b03:0067:ab50";
  device.firmware = "28.39.1002";
  device.board_id = "MT_0000000838";
  device.hca_type = "MT4129";
  device.uverbs = number;
  for (size_t i = 0; i < ports.size(); ++i) {
    const int node = number * 2 + static_cast<int>(i);
    device.umad.push_back(node);
    if (ports[i].link_layer == "InfiniBand") device.issm.push_back(node);
  }
  device.ports = std::move(ports);
  return device;
}

inline Interface Ethernet(const std::string& name, int index, int64_t speed_mbps = 400000) {
  Interface interface;
  interface.name = name;
  interface.index = index;
  interface.speed_mbps = speed_mbps;
  return interface;
}

// A ConnectX-7 with one port of RoCE and its interface.
inline Function ConnectX(const std::string& address, const std::string& interface, int index,
                         int rdma_number) {
  Function function;
  function.address = address;
  function.device = "0x1021";
  function.interfaces = {Ethernet(interface, index)};
  function.rdma = {Mlx5(rdma_number, {RocePort(interface)})};
  return function;
}

// A physical function and four virtual ones: a whole one; one whose interface is elsewhere (its RDMA device is seen, as
// in the shared mode); one without driver; one for a virtual machine.
inline Node SriovNode() {
  Node node;
  Function pf = ConnectX("0000:8d:00.0", "ens1f0np0", 2, 0);
  pf.root = "pci0000:8c";
  pf.bridges = {"0000:8c:01.0"};
  pf.numa_node = 1;
  pf.total_vfs = 16;
  node.functions = {pf};
  const std::string drivers[] = {"mlx5_core", "mlx5_core", "", "vfio-pci"};
  for (int i = 0; i < 4; ++i) {
    Function vf;
    vf.address = "0000:8d:00." + std::to_string(i + 1);
    vf.root = pf.root;
    vf.bridges = pf.bridges;
    vf.numa_node = 1;
    vf.driver = drivers[i];
    vf.physical_function = pf.address;
    if (i == 0) vf.interfaces = {Ethernet("ens1f0v0", 3, 100000)};
    if (i < 2) vf.rdma = {Mlx5(i + 1, {RocePort(i == 0 ? "ens1f0v0" : "")})};
    node.functions.push_back(vf);
  }
  return node;
}

// A ConnectX in InfiniBand mode with IPoIB, and a child of it with a partition key. The port's GUID is not the node's.
inline Node InfiniBandNode() {
  Node node;
  Function function;
  function.address = "0000:18:00.0";
  function.device = "0x1021";
  function.pci_class = "0x020700";
  Interface ib0 = Ethernet("ib0", 4, 400000);
  ib0.type = 32;
  ib0.kind = "ipoib";
  ib0.address = "00:00:10:29:fe:80:00:00:00:00:00:00:98:03:9b:03:00:67:ab:ff";
  ib0.cidrs = {"192.0.2.18/24", "fe80::9a03:9b03:67:abff/64"};
  Interface child = ib0;
  child.name = "ib0.8001";
  child.index = 5;
  child.parent = "ib0";
  function.interfaces = {ib0, child};
  function.rdma = {Mlx5(0, {InfiniBandPort("9803:9b03:0067:abff")})};
  node.functions = {function};
  return node;
}

// An HCA of two ports on one function: InfiniBand and RoCE.
inline Node TwoPortNode() {
  Node node;
  Function function;
  function.address = "0000:05:00.0";
  function.device = "0x1007";
  function.driver = "mlx4_core";
  function.pci_class = "0x028000";
  Interface ib0 = Ethernet("ib0", 6, 56000);
  ib0.type = 32;
  ib0.kind = "ipoib";
  ib0.address = "80:00:02:08:fe:80:00:00:00:00:00:00:e4:1d:2d:03:00:6b:a3:41";
  Interface eth = Ethernet("eth4", 7, 40000);
  eth.dev_port = 1;
  function.interfaces = {eth, ib0};
  RdmaDevice rdma = Mlx5(0, {InfiniBandPort("e41d:2d03:006b:a341"), RocePort("eth4")});
  rdma.name = "mlx4_0";
  rdma.issm = {0, 1};
  function.rdma = {rdma};
  node.functions = {function};
  return node;
}

// RoCE of a bond: one RDMA device on the first member.
inline Node BondNode() {
  Node node;
  for (int i = 0; i < 2; ++i) {
    Function function =
        ConnectX("0000:3b:00." + std::to_string(i), "ens2f" + std::to_string(i), 10 + i, 0);
    function.root = "pci0000:3a";
    function.interfaces[0].master = "bond0";
    if (i == 1) function.rdma.clear();
    node.functions.push_back(function);
  }
  node.functions[0].rdma[0].name = "mlx5_bond_0";
  node.functions[0].rdma[0].ports = {RocePort("bond0")};
  Interface bond = Ethernet("bond0", 12, 800000);
  bond.kind = "bond";
  bond.cidrs = {"198.51.100.2/24"};
  node.virtual_interfaces = {bond};
  return node;
}

inline Function BnxtRe() {
  Function function;
  function.address = "0000:41:00.0";
  function.vendor = "0x14e4";
  function.device = "0x1760";
  function.driver = "bnxt_en";
  function.interfaces = {Ethernet("ens3np0", 20)};
  RdmaDevice rdma;
  rdma.name = "bnxt_re0";
  rdma.node_guid = "be97:e1ff:fe00:5301";
  rdma.firmware = "231.0.153.0";
  rdma.uverbs = 20;
  rdma.umad = {20};
  rdma.ports = {RocePort("ens3np0")};
  function.rdma = {rdma};
  return function;
}

// RoCE or iWARP; the driver of the RDMA part sits on an auxiliary device, its device on the function.
inline Function Irdma() {
  Function function;
  function.address = "0000:4b:00.0";
  function.vendor = "0x8086";
  function.device = "0x1592";
  function.driver = "ice";
  function.interfaces = {Ethernet("ens4", 21, 100000)};
  RdmaDevice rdma;
  rdma.name = "rocep75s0";
  rdma.node_guid = "42a6:b7ff:fe00:5301";
  rdma.uverbs = 21;
  rdma.umad = {21};
  rdma.ports = {RocePort("ens4")};
  function.rdma = {rdma};
  return function;
}

// RDMA without an interface, in no network class.
inline Function Efa() {
  Function function;
  function.address = "0000:10:1b.0";
  function.vendor = "0x1d0f";
  function.device = "0xefa2";
  function.pci_class = "0x088000";
  function.driver = "efa";
  RdmaDevice rdma;
  rdma.name = "rdmap16s27";
  rdma.node_type = "7: unspecified";
  rdma.uverbs = 22;
  Port port;
  port.link_layer = "Unknown";
  port.rate = "200 Gb/sec (4X HDR)";
  port.gids = {{"fe80:0000:0000:0000:0837:c1ff:fe3a:5b11", "", ""}};
  rdma.ports = {port};
  function.rdma = {rdma};
  return function;
}

inline Function PlainNic(const std::string& address, const std::string& interface, int index) {
  Function function;
  function.address = address;
  function.vendor = "0x8086";
  function.device = "0x1521";
  function.driver = "igb";
  function.interfaces = {Ethernet(interface, index, 1000)};
  return function;
}

}  // namespace rdma_simulator
