#include "discovery.h"

#include <map>
#include <string>

#include "dra/backend/backend.h"
#include "fixtures.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sysfs_tree.h"

namespace rdma {
namespace {

using rdma_simulator::Node;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Optional;

// The NIC called `name`, which must be there.
#define NIC_OR_RETURN(variable, node, name) \
  const Nic* variable = Find(node, name);   \
  ASSERT_NE(variable, nullptr) << name << " is not among the NICs"

TEST(RdmaDiscovery, FindsAPhysicalFunctionAndItsVirtualOnes) {
  SysfsTree tree(rdma_simulator::SriovNode());
  const NodeNics node = tree.Look();
  EXPECT_THAT(Names(node), ElementsAre("pci-0000-8d-00-0", "pci-0000-8d-00-1", "pci-0000-8d-00-2",
                                       "pci-0000-8d-00-3", "pci-0000-8d-00-4"));
  EXPECT_THAT(node.problems, IsEmpty());
  EXPECT_THAT(node.rdma_mode, Optional(RdmaNamespaceMode::kShared));
  EXPECT_TRUE(node.rdma_cm);

  NIC_OR_RETURN(pf, node, "pci-0000-8d-00-0");
  EXPECT_EQ(pf->identity, "pci:0000:8d:00.0");
  EXPECT_EQ(pf->pci_address, "0000:8d:00.0");
  EXPECT_EQ(pf->vendor, "0x15b3");
  EXPECT_EQ(pf->device, "0x1021");
  EXPECT_EQ(pf->subsystem_device, "0x0001");
  EXPECT_EQ(pf->driver, "mlx5_core");
  EXPECT_TRUE(pf->physical_function);
  EXPECT_EQ(pf->virtual_functions, 4);
  EXPECT_EQ(pf->pf_address, "");
  EXPECT_EQ(pf->vf_index, -1);
  EXPECT_EQ(KindOf(*pf), "physical");
  EXPECT_EQ(LinkLayerOf(*pf), "ethernet");
  EXPECT_THAT(RateMbpsOf(*pf), Optional(400000));
  ASSERT_TRUE(pf->netdev);
  EXPECT_EQ(pf->netdev->link.name, "ens1f0np0");
  EXPECT_THAT(pf->netdev->speed_mbps, Optional(400000));
  ASSERT_TRUE(pf->rdma);
  EXPECT_EQ(pf->rdma->name, "mlx5_0");
  EXPECT_EQ(pf->rdma->node_type, "CA");
  EXPECT_EQ(pf->rdma->node_guid, "9803:9b03:0067:ab50");
  EXPECT_EQ(pf->rdma->firmware, "28.39.1002");
  EXPECT_EQ(pf->rdma->board_id, "MT_0000000838");
  EXPECT_EQ(pf->rdma->hca_type, "MT4129");
  EXPECT_EQ(pf->rdma->chars.uverbs, "infiniband/uverbs0");
  EXPECT_THAT(pf->rdma->chars.umad, ElementsAre("infiniband/umad0"));
  EXPECT_THAT(pf->rdma->chars.issm, IsEmpty());
  ASSERT_EQ(pf->rdma->ports.size(), 1u);
  EXPECT_EQ(pf->rdma->ports[0].number, 1);
  EXPECT_EQ(pf->rdma->ports[0].link_layer, "Ethernet");
  EXPECT_EQ(pf->rdma->ports[0].state, "ACTIVE");
  EXPECT_EQ(pf->rdma->ports[0].physical_state, "LinkUp");
  EXPECT_THAT(pf->rdma->ports[0].rate_mbps, Optional(100000));
  EXPECT_EQ(pf->rdma->unusable, "");

  NIC_OR_RETURN(vf, node, "pci-0000-8d-00-1");
  EXPECT_EQ(KindOf(*vf), "virtualFunction");
  EXPECT_EQ(vf->pf_address, "0000:8d:00.0");
  EXPECT_EQ(vf->pf_interface, "ens1f0np0");
  EXPECT_EQ(vf->vf_index, 0);
  EXPECT_FALSE(vf->physical_function);
  EXPECT_EQ(vf->rdma->name, "mlx5_1");

  NIC_OR_RETURN(moved, node, "pci-0000-8d-00-2");
  EXPECT_FALSE(moved->netdev);
  EXPECT_EQ(moved->rdma->name, "mlx5_2");
  EXPECT_EQ(moved->vf_index, 1);
  NIC_OR_RETURN(unbound, node, "pci-0000-8d-00-3");
  EXPECT_EQ(unbound->driver, "");
  NIC_OR_RETURN(passed, node, "pci-0000-8d-00-4");
  EXPECT_EQ(passed->driver, "vfio-pci");
}

// A node of a PF with more VFs than one digit, so that virtfn10 is not virtfn1.
TEST(RdmaDiscovery, NumbersVirtualFunctions) {
  Node first = rdma_simulator::SriovNode();
  for (int i = 4; i < 12; ++i) {
    rdma_simulator::Function vf = first.functions[3];
    vf.address =
        i < 7 ? "0000:8d:00." + std::to_string(i + 1) : "0000:8d:01." + std::to_string(i - 7);
    first.functions.push_back(vf);
  }
  SysfsTree tree(first);
  const NodeNics node = tree.Look();
  NIC_OR_RETURN(eleventh, node, "pci-0000-8d-01-3");
  EXPECT_EQ(eleventh->vf_index, 10);
}

TEST(RdmaDiscovery, FindsInfiniBandByTheFunctionAndNotByTheGuid) {
  SysfsTree tree(rdma_simulator::InfiniBandNode());
  const NodeNics node = tree.Look();
  NIC_OR_RETURN(nic, node, "pci-0000-18-00-0");
  EXPECT_EQ(nic->netdev->link.name, "ib0");
  EXPECT_EQ(nic->netdev->link.address.size(), 59u);
  EXPECT_EQ(nic->rdma->name, "mlx5_0");
  EXPECT_EQ(nic->rdma->node_guid, "9803:9b03:0067:ab50");
  EXPECT_EQ(nic->rdma->ports.at(0).port_guid, "9803:9b03:0067:abff");
  EXPECT_THAT(nic->rdma->ports.at(0).rate_mbps, Optional(400000));
  EXPECT_THAT(nic->rdma->chars.issm, ElementsAre("infiniband/issm0"));
  EXPECT_EQ(LinkLayerOf(*nic), "infiniband");
  // The partition's interface is a virtual one that lies on it, though sysfs shows it below the same function.
  NIC_OR_RETURN(child, node, VirtualNicName("ib0.8001"));
  EXPECT_EQ(KindOf(*child), "ipoib");
  EXPECT_THAT(child->members, ElementsAre("0000:18:00.0"));
}

TEST(RdmaDiscovery, TellsTheTwoPortsOfOneFunctionApart) {
  SysfsTree tree(rdma_simulator::TwoPortNode());
  const NodeNics node = tree.Look();
  EXPECT_THAT(Names(node), ElementsAre("pci-0000-05-00-0", "pci-0000-05-00-0-p1"));
  NIC_OR_RETURN(first, node, "pci-0000-05-00-0");
  NIC_OR_RETURN(second, node, "pci-0000-05-00-0-p1");
  EXPECT_EQ(first->identity, "pci:0000:05:00.0");
  EXPECT_EQ(second->identity, "pci:0000:05:00.0/1");
  EXPECT_EQ(second->port, 1);
  EXPECT_EQ(first->netdev->link.name, "ib0");
  EXPECT_EQ(second->netdev->link.name, "eth4");
  EXPECT_EQ(first->rdma->name, "mlx4_0");
  EXPECT_EQ(second->rdma->name, "mlx4_0");
  EXPECT_EQ(first->rdma->ports.at(0).number, 1);
  EXPECT_EQ(second->rdma->ports.at(0).number, 2);
  EXPECT_EQ(first->rdma->ports.size(), 1u);
  EXPECT_THAT(first->rdma->chars.umad, ElementsAre("infiniband/umad0"));
  EXPECT_THAT(second->rdma->chars.umad, ElementsAre("infiniband/umad1"));
  EXPECT_EQ(second->rdma->chars.uverbs, "infiniband/uverbs0");
  EXPECT_EQ(LinkLayerOf(*first), "infiniband");
  EXPECT_EQ(LinkLayerOf(*second), "ethernet");
}

TEST(RdmaDiscovery, KeepsAPortsNameWhenTheOtherIsAway) {
  SysfsTree tree(rdma_simulator::TwoPortNode());
  tree.node.functions[0].interfaces.pop_back();  // ib0
  tree.Write();
  EXPECT_THAT(Names(tree.Look()), ElementsAre("pci-0000-05-00-0-p1"));
}

TEST(RdmaDiscovery, GivesAnHcaWithoutInterfaceAllItsPorts) {
  SysfsTree tree(rdma_simulator::TwoPortNode());
  tree.node.functions[0].interfaces.clear();
  tree.Write();
  const NodeNics node = tree.Look();
  NIC_OR_RETURN(nic, node, "pci-0000-05-00-0");
  EXPECT_EQ(nic->rdma->ports.size(), 2u);
  EXPECT_THAT(nic->rdma->chars.umad, ElementsAre("infiniband/umad0", "infiniband/umad1"));
  EXPECT_THAT(nic->rdma->chars.issm, ElementsAre("infiniband/issm0", "infiniband/issm1"));
}

TEST(RdmaDiscovery, OffersNeitherOfTwoInterfacesThatNothingTellsApart) {
  SysfsTree tree({.functions = {rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2)}});
  tree.node.functions[0].interfaces.push_back(rdma_simulator::Ethernet("eth1", 3));
  tree.Write();
  const NodeNics node = tree.Look();
  EXPECT_THAT(node.nics, IsEmpty());
  ASSERT_EQ(node.problems.size(), 1u);
  EXPECT_EQ(node.problems[0].subject, "pci:0000:01:00.0");
  EXPECT_THAT(node.problems[0].message,
              HasSubstr("eth0 and eth1 of function 0000:01:00.0 both have the dev_port 0"));
  // Before Linux 3.15 dev_id said it.
  tree.node.functions[0].interfaces[1].dev_id = 1;
  tree.Write();
  EXPECT_THAT(Names(tree.Look()), ElementsAre("pci-0000-01-00-0", "pci-0000-01-00-0-p1"));
}

TEST(RdmaDiscovery, FindsTheRdmaDevicesOfEveryMake) {
  SysfsTree tree(
      {.functions = {rdma_simulator::BnxtRe(), rdma_simulator::Irdma(), rdma_simulator::Efa(),
                     rdma_simulator::PlainNic("0000:01:00.0", "eno1", 2)}});
  const NodeNics node = tree.Look();
  EXPECT_THAT(Names(node), ElementsAre("pci-0000-01-00-0", "pci-0000-10-1b-0", "pci-0000-41-00-0",
                                       "pci-0000-4b-00-0"));
  NIC_OR_RETURN(bnxt, node, "pci-0000-41-00-0");
  EXPECT_EQ(bnxt->rdma->name, "bnxt_re0");
  EXPECT_EQ(bnxt->rdma->board_id, "");
  NIC_OR_RETURN(irdma, node, "pci-0000-4b-00-0");
  EXPECT_EQ(irdma->rdma->name, "rocep75s0");
  NIC_OR_RETURN(efa, node, "pci-0000-10-1b-0");
  EXPECT_FALSE(efa->netdev);
  EXPECT_EQ(efa->rdma->name, "rdmap16s27");
  EXPECT_EQ(efa->rdma->node_type, "unspecified");
  EXPECT_EQ(LinkLayerOf(*efa), "");
  EXPECT_THAT(RateMbpsOf(*efa), Optional(200000));
  NIC_OR_RETURN(plain, node, "pci-0000-01-00-0");
  EXPECT_FALSE(plain->rdma);
}

TEST(RdmaDiscovery, KnowsTheRatesThatTheKernelWrites) {
  const struct {
    const char* text;
    std::optional<int64_t> mbps;
  } cases[] = {{"2.5 Gb/sec (1X)", 2500},
               {"10 Gb/sec (4X)", 10000},
               {"100 Gb/sec (4X EDR)", 100000},
               {"400 Gb/sec (4X NDR)", 400000},
               {"800 Gb/sec (4X XDR)", 800000},
               {"0 Gb/sec ()", std::nullopt},
               {"", std::nullopt},
               {"Gb/sec", std::nullopt},
               {"100 Mb/sec", std::nullopt},
               {"7", std::nullopt}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    SysfsTree tree({.functions = {rdma_simulator::Efa()}});
    tree.node.functions[0].rdma[0].ports[0].rate = c.text;
    tree.Write();
    const NodeNics node = tree.Look();
    NIC_OR_RETURN(efa, node, "pci-0000-10-1b-0");
    EXPECT_EQ(efa->rdma->ports.at(0).rate_mbps, c.mbps);
  }
}

TEST(RdmaDiscovery, TakesNoRateAndNoGuidThatIsNotSet) {
  SysfsTree tree(rdma_simulator::InfiniBandNode());
  rdma_simulator::Function& function = tree.node.functions[0];
  function.interfaces[0].speed_mbps.reset();
  function.rdma[0].node_guid = "0000:0000:0000:0000";
  function.rdma[0].ports[0].state = "1: DOWN";
  function.rdma[0].ports[0].rate = "2.5 Gb/sec (1X)";
  function.rdma[0].ports[0].gids[0].gid = "fe80:0000:0000:0000:0000:0000:0000:0000";
  tree.Write();
  const NodeNics node = tree.Look();
  NIC_OR_RETURN(nic, node, "pci-0000-18-00-0");
  EXPECT_EQ(RateMbpsOf(*nic), std::nullopt);
  EXPECT_EQ(nic->rdma->node_guid, "");
  EXPECT_EQ(nic->rdma->ports.at(0).port_guid, "");
}

TEST(RdmaDiscovery, GivesABondTheRdmaDeviceOfItsMembers) {
  SysfsTree tree(rdma_simulator::BondNode());
  NodeNics node = tree.Look();
  NIC_OR_RETURN(bond, node, "net-bond0");
  EXPECT_EQ(bond->identity, "net:bond0");
  EXPECT_EQ(KindOf(*bond), "bond");
  EXPECT_THAT(bond->members, ElementsAre("0000:3b:00.0", "0000:3b:00.1"));
  ASSERT_TRUE(bond->rdma);
  EXPECT_EQ(bond->rdma->name, "mlx5_bond_0");
  EXPECT_FALSE(bond->enslaved);
  for (const char* name : {"pci-0000-3b-00-0", "pci-0000-3b-00-1"}) {
    NIC_OR_RETURN(member, node, name);
    EXPECT_TRUE(member->enslaved);
    EXPECT_EQ(member->bond, "bond0");
    EXPECT_EQ(member->master, "bond0");
    EXPECT_FALSE(member->rdma) << "the bond has it";
  }
  // Without an address the GIDs do not name the bond yet: the only device of its members is its own.
  tree.node.functions[0].rdma[0].ports = {rdma_simulator::RocePort("")};
  tree.Write();
  node = tree.Look();
  EXPECT_EQ(Find(node, "net-bond0")->rdma->name, "mlx5_bond_0");
  // Each member with a device of its own is no RoCE of a bond.
  tree.node.functions[0].rdma = {rdma_simulator::Mlx5(0, {rdma_simulator::RocePort("ens2f0")})};
  tree.node.functions[1].rdma = {rdma_simulator::Mlx5(1, {rdma_simulator::RocePort("ens2f1")})};
  tree.Write();
  node = tree.Look();
  EXPECT_FALSE(Find(node, "net-bond0")->rdma);
  EXPECT_EQ(Find(node, "pci-0000-3b-00-1")->rdma->name, "mlx5_1");
}

TEST(RdmaDiscovery, KeepsRepresentorsOut) {
  SysfsTree tree(rdma_simulator::SriovNode());
  rdma_simulator::Function& pf = tree.node.functions[0];
  pf.interfaces[0].physical_port_name = "p0";
  pf.interfaces[0].physical_switch_id = "aabbccdd";
  int index = 100;
  for (const char* port : {"pf0vf0", "pf0vf1", "c1pf0vf0", "pf0sf88", "pf0hpf", "c1pf0"}) {
    rdma_simulator::Interface representor =
        rdma_simulator::Ethernet("rep" + std::to_string(index), index);
    ++index;
    representor.physical_port_name = port;
    representor.physical_switch_id = "aabbccdd";
    pf.interfaces.insert(pf.interfaces.begin(), representor);
  }
  tree.Write();
  const NodeNics node = tree.Look();
  EXPECT_EQ(node.nics.size(), 5u);
  EXPECT_THAT(node.problems, IsEmpty());
  NIC_OR_RETURN(nic, node, "pci-0000-8d-00-0");
  EXPECT_EQ(nic->netdev->link.name, "ens1f0np0");
  EXPECT_EQ(nic->netdev->link.physical_port_name, "p0");
}

TEST(RdmaDiscovery, FindsVirtualInterfacesAndNotWhatNoClaimCanMean) {
  SysfsTree tree({.functions = {rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2)}});
  const struct {
    const char* name;
    const char* kind;
    const char* parent;
  } interfaces[] = {{"veth7", "veth", ""},        {"mv0", "macvlan", "eth0"},
                    {"eth0.100", "vlan", "eth0"}, {"docker0", "bridge", ""},
                    {"tap0", "tun", ""},          {"flannel.1", "vxlan", ""},
                    {"cilium_host", "veth", ""},  {"dum0", "dummy", ""}};
  int index = 50;
  for (const auto& i : interfaces) {
    rdma_simulator::Interface interface = rdma_simulator::Ethernet(i.name, index++);
    interface.kind = i.kind;
    interface.parent = i.parent;
    tree.node.virtual_interfaces.push_back(interface);
  }
  rdma_simulator::Interface loopback = rdma_simulator::Ethernet("lo", 1);
  loopback.type = 772;
  tree.node.virtual_interfaces.push_back(loopback);
  tree.Write();
  const NodeNics node = tree.Look();
  EXPECT_THAT(Names(node), ElementsAre("net-dum0", "net-mv0", "net-veth7",
                                       VirtualNicName("eth0.100"), "pci-0000-01-00-0"));
  NIC_OR_RETURN(macvlan, node, "net-mv0");
  EXPECT_EQ(KindOf(*macvlan), "macvlan");
  EXPECT_THAT(macvlan->members, ElementsAre("0000:01:00.0"));
  NIC_OR_RETURN(veth, node, "net-veth7");
  EXPECT_THAT(veth->members, IsEmpty());
}

TEST(RdmaDiscovery, FindsTheFunctionBehindAVirtioDevice) {
  rdma_simulator::Function function;
  function.address = "0000:00:03.0";
  function.vendor = "0x1af4";
  function.device = "0x1041";
  function.driver = "virtio-pci";
  function.children = {{"virtio0", "virtio", {rdma_simulator::Ethernet("ens3", 2)}, {}}};
  SysfsTree tree({.functions = {function}});
  NodeNics node = tree.Look();
  EXPECT_THAT(Names(node), ElementsAre("pci-0000-00-03-0"));
  EXPECT_EQ(node.nics[0].netdev->link.name, "ens3");
  // Where sysfs shows another namespace's interfaces, netlink says it too.
  tree.Remove("sys/class/net/ens3");
  node = tree.Look();
  EXPECT_THAT(Names(node), ElementsAre("pci-0000-00-03-0"));
  EXPECT_EQ(node.nics[0].netdev->link.name, "ens3");
}

TEST(RdmaDiscovery, TakesASubfunctionForNoPartOfItsFunction) {
  SysfsTree tree({.functions = {rdma_simulator::ConnectX("0000:8d:00.0", "ens1", 2, 0)}});
  tree.node.functions[0].children = {
      {"mlx5_core.sf.4",
       "auxiliary",
       {rdma_simulator::Ethernet("en1s88", 9)},
       {rdma_simulator::Mlx5(3, {rdma_simulator::RocePort("en1s88")})}}};
  tree.Write();
  const NodeNics node = tree.Look();
  EXPECT_THAT(Names(node), ElementsAre("net-en1s88", "pci-0000-8d-00-0"));
  EXPECT_EQ(KindOf(node.nics[0]), "subFunction");
  EXPECT_EQ(node.nics[0].rdma->name, "mlx5_3");
  EXPECT_EQ(node.nics[1].rdma->name, "mlx5_0");
  EXPECT_EQ(node.nics[1].netdev->link.name, "ens1");
}

TEST(RdmaDiscovery, GivesSoftwareRdmaToTheInterfaceOfItsGids) {
  SysfsTree tree({.functions = {rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2)}});
  rdma_simulator::RdmaDevice rxe;
  rxe.name = "rxe0";
  rxe.uverbs = 0;
  rxe.ports = {rdma_simulator::RocePort("eth0")};
  tree.node.software_rdma = {rxe};
  tree.Write();
  NodeNics node = tree.Look();
  ASSERT_TRUE(node.nics.at(0).rdma);
  EXPECT_EQ(node.nics[0].rdma->name, "rxe0");
  rdma_simulator::Interface dummy = rdma_simulator::Ethernet("dum0", 3);
  dummy.kind = "dummy";
  tree.node.virtual_interfaces = {dummy};
  tree.node.software_rdma[0].ports = {rdma_simulator::RocePort("dum0")};
  tree.Write();
  node = tree.Look();
  EXPECT_EQ(Find(node, "net-dum0")->rdma->name, "rxe0");
  EXPECT_FALSE(Find(node, "pci-0000-01-00-0")->rdma);
}

// INV-13: nothing is remembered from the look before.
TEST(RdmaDiscovery, SeesInfiniBandThatAppearsLater) {
  SysfsTree tree({.functions = {rdma_simulator::BnxtRe()}});
  const std::vector<rdma_simulator::RdmaDevice> rdma = tree.node.functions[0].rdma;
  tree.node.functions[0].rdma.clear();
  tree.Write();
  EXPECT_FALSE(tree.Look().nics.at(0).rdma);
  tree.node.functions[0].rdma = rdma;
  tree.Write();
  ASSERT_TRUE(tree.Look().nics.at(0).rdma);
}

TEST(RdmaDiscovery, LeavesOutAFunctionThatVanishesWhileItIsRead) {
  SysfsTree tree({.functions = {rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2),
                                rdma_simulator::PlainNic("0000:02:00.0", "eth1", 3)}});
  int calls = 0;
  const NodeNics node = LookAtNode(tree.sys(), tree.dev(), tree.Kernel(), {}, [&] {
    if (++calls == 1) tree.Remove("sys/devices/pci0000:00/0000:01:00.0");
  });
  EXPECT_EQ(calls, 2);
  EXPECT_THAT(Names(node), Contains("pci-0000-02-00-0"));
  EXPECT_THAT(Names(node), Not(Contains("pci-0000-01-00-0")));
}

TEST(RdmaDiscovery, LeavesOutAFunctionOfWhichOnlyHalfIsLeft) {
  SysfsTree tree(rdma_simulator::SriovNode());
  tree.Remove("sys/devices/pci0000:8c/0000:8c:01.0/0000:8d:00.1/vendor");
  const NodeNics node = tree.Look();
  EXPECT_EQ(node.nics.size(), 4u);
  EXPECT_EQ(Find(node, "pci-0000-8d-00-1"), nullptr);
}

TEST(RdmaDiscovery, ReportsAFunctionWhoseInterfaceNetlinkDidNotKnowYet) {
  SysfsTree tree({.functions = {rdma_simulator::ConnectX("0000:8d:00.0", "ens1", 2, 0)}});
  KernelNetwork before = tree.Kernel();
  before.links.clear();
  const NodeNics node = LookAtNode(tree.sys(), tree.dev(), before, {}, [] {});
  EXPECT_THAT(node.nics, IsEmpty()) << "it would be offered without its interface";
  ASSERT_EQ(node.problems.size(), 1u);
  EXPECT_EQ(node.problems[0].subject, "pci:0000:8d:00.0");
}

TEST(RdmaDiscovery, JoinsARenamedInterfaceByItsIndex) {
  SysfsTree tree({.functions = {rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2)}});
  KernelNetwork kernel = tree.Kernel();
  kernel.links[0].name = "lan";
  kernel.links[0].parent_bus.clear();  // before Linux 5.14
  kernel.links[0].parent_device.clear();
  const NodeNics node = LookAtNode(tree.sys(), tree.dev(), kernel, {}, [] {});
  EXPECT_THAT(Names(node), ElementsAre("pci-0000-01-00-0")) << "a rename keeps the NIC's name";
  EXPECT_EQ(node.nics[0].netdev->link.name, "lan");
  EXPECT_THAT(node.nics[0].netdev->speed_mbps, Optional(1000));
}

TEST(RdmaDiscovery, StopsWhenTheCallIsOver) {
  SysfsTree tree(rdma_simulator::SriovNode());
  EXPECT_THROW(LookAtNode(tree.sys(), tree.dev(), tree.Kernel(), {},
                          [] { throw dra::BackendError(DRA_CANCELLED, "over"); }),
               dra::BackendError);
}

TEST(RdmaDiscovery, FindsNothingWhereThereIsNothing) {
  SysfsTree tree;
  tree.mode.reset();
  const NodeNics node = tree.Look();
  EXPECT_THAT(node.nics, IsEmpty());
  EXPECT_THAT(node.problems, IsEmpty());
  EXPECT_EQ(node.rdma_mode, std::nullopt);
}

// ---- the default route

std::map<std::string, bool> OnDefaultRoute(const NodeNics& node) {
  std::map<std::string, bool> result;
  for (const Nic& nic : node.nics) {
    if (nic.netdev) result[nic.netdev->link.name] = nic.netdev->default_route;
  }
  return result;
}

TEST(RdmaDefaultRoute, LeadsThroughAllThatItsInterfaceLiesOn) {
  SysfsTree tree(rdma_simulator::BondNode());
  tree.node.functions.push_back(rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2));
  rdma_simulator::Interface bridge = rdma_simulator::Ethernet("br0", 30),
                            vlan = rdma_simulator::Ethernet("bond0.7", 31);
  bridge.kind = "bridge";
  vlan.kind = "vlan";
  vlan.parent = "bond0";
  vlan.master = "br0";
  tree.node.virtual_interfaces.push_back(bridge);
  tree.node.virtual_interfaces.push_back(vlan);
  tree.Write();
  tree.DefaultRoute("br0");
  const std::map<std::string, bool> expected = {
      {"eth0", false}, {"ens2f0", true}, {"ens2f1", true}, {"bond0", true}, {"bond0.7", true}};
  EXPECT_EQ(OnDefaultRoute(tree.Look()), expected);
}

TEST(RdmaDefaultRoute, LeadsThroughAMacvlansParentAndAVirtualFunctionsPhysicalOne) {
  SysfsTree tree(rdma_simulator::SriovNode());
  rdma_simulator::Interface macvlan = rdma_simulator::Ethernet("mv0", 30);
  macvlan.kind = "macvlan";
  macvlan.parent = "ens1f0v0";
  tree.node.virtual_interfaces = {macvlan};
  tree.Write();
  tree.DefaultRoute("mv0");
  const std::map<std::string, bool> expected = {
      {"mv0", true}, {"ens1f0v0", true}, {"ens1f0np0", true}};
  EXPECT_EQ(OnDefaultRoute(tree.Look()), expected);
  tree.default_routes.clear();
  tree.DefaultRoute("ens1f0np0");
  const std::map<std::string, bool> of_pf = {
      {"mv0", false}, {"ens1f0v0", false}, {"ens1f0np0", true}};
  EXPECT_EQ(OnDefaultRoute(tree.Look()), of_pf);
}

TEST(RdmaDefaultRoute, OfAParentElsewhereIsAnotherInterfaces) {
  SysfsTree tree({.functions = {rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2)}});
  rdma_simulator::Interface veth = rdma_simulator::Ethernet("veth0", 30);
  veth.kind = "veth";
  tree.node.virtual_interfaces = {veth};
  tree.Write();
  tree.DefaultRoute("veth0");
  KernelNetwork kernel = tree.Kernel();
  kernel.links[1].parent = 2;  // eth0's number, of the namespace where the peer is
  kernel.links[1].parent_elsewhere = true;
  const NodeNics node = LookAtNode(tree.sys(), tree.dev(), kernel, {}, [] {});
  const std::map<std::string, bool> expected = {{"veth0", true}, {"eth0", false}};
  EXPECT_EQ(OnDefaultRoute(node), expected);
  EXPECT_THAT(Find(node, "net-veth0")->members, IsEmpty());
}

// ---- SLC-09: what pods hold

HeldNic NoteOf(const NodeNics& node, const std::string& name) {
  const Nic* nic = Find(node, name);
  EXPECT_NE(nic, nullptr);
  return nic == nullptr ? HeldNic{} : HeldNic{nic->netdev, nic->rdma};
}

TEST(RdmaHeldNics, AreAsTheyWere) {
  SysfsTree tree(rdma_simulator::SriovNode());
  const NodeNics before = tree.Look();
  const std::map<std::string, HeldNic> held = {
      {"pci:0000:8d:00.1", NoteOf(before, "pci-0000-8d-00-1")}};
  tree.node.functions[1].interfaces.clear();
  tree.Write();
  NodeNics node = tree.Look(held);
  NIC_OR_RETURN(shared_mode, node, "pci-0000-8d-00-1");
  EXPECT_EQ(shared_mode->netdev->link.name, "ens1f0v0");
  EXPECT_EQ(shared_mode->rdma->name, "mlx5_1");
  tree.node.functions[1].rdma.clear();  // where each belongs to one namespace
  tree.Write();
  node = tree.Look(held);
  NIC_OR_RETURN(exclusive_mode, node, "pci-0000-8d-00-1");
  EXPECT_EQ(exclusive_mode->rdma->name, "mlx5_1");
  EXPECT_EQ(exclusive_mode->rdma->chars.uverbs, "infiniband/uverbs1");
  EXPECT_EQ(node.nics.size(), before.nics.size());
}

TEST(RdmaHeldNics, KeepTheirPort) {
  SysfsTree tree(rdma_simulator::TwoPortNode());
  const std::map<std::string, HeldNic> held = {
      {"pci:0000:05:00.0/1", NoteOf(tree.Look(), "pci-0000-05-00-0-p1")}};
  tree.node.functions[0].interfaces.erase(tree.node.functions[0].interfaces.begin());  // eth4
  tree.Write();
  const NodeNics node = tree.Look(held);
  EXPECT_THAT(Names(node), ElementsAre("pci-0000-05-00-0", "pci-0000-05-00-0-p1"));
  EXPECT_EQ(node.nics[0].netdev->link.name, "ib0");
  EXPECT_EQ(node.nics[1].netdev->link.name, "eth4");
  EXPECT_EQ(node.nics[1].rdma->ports.at(0).number, 2);
}

TEST(RdmaHeldNics, OfNoFunctionAreMadeOfTheirNote) {
  SysfsTree tree({.functions = {rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2)}});
  rdma_simulator::Interface veth = rdma_simulator::Ethernet("veth.0", 30);
  veth.kind = "veth";
  tree.node.virtual_interfaces = {veth};
  tree.Write();
  const std::string name = VirtualNicName("veth.0");
  const std::map<std::string, HeldNic> held = {{"net:veth.0", NoteOf(tree.Look(), name)}};
  tree.node.virtual_interfaces.clear();
  tree.node.functions[0].interfaces[0].index = 30;  // its number belongs to another one now
  tree.node.functions[0].interfaces[0].master = "";
  tree.Write();
  const NodeNics node = tree.Look(held);
  NIC_OR_RETURN(nic, node, name);
  EXPECT_EQ(nic->identity, "net:veth.0");
  EXPECT_EQ(nic->netdev->link.kind, "veth");
  EXPECT_THAT(nic->members, IsEmpty());
}

TEST(RdmaHeldNics, ThatAreBackAreAsTheHostSeesThem) {
  SysfsTree tree({.functions = {rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2)}});
  std::map<std::string, HeldNic> held = {
      {"pci:0000:01:00.0", NoteOf(tree.Look(), "pci-0000-01-00-0")}};
  held["pci:0000:01:00.0"].netdev->link.name = "old";
  EXPECT_EQ(tree.Look(held).nics.at(0).netdev->link.name, "eth0");
}

}  // namespace
}  // namespace rdma
