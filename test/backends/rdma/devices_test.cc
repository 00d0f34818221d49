#include "devices.h"

#include <map>
#include <random>
#include <set>
#include <string>

#include "dra/resource/field_error.h"
#include "dra/resource/slice.h"
#include "fixtures.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sysfs_tree.h"

namespace rdma {
namespace {

using dra::Json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;
using testing::Pair;
using testing::UnorderedElementsAre;

dra::DiscoverRequest AllKept() {
  dra::DiscoverRequest request;
  request.counters = dra::ServerField::kKept;
  request.multiple_allocations = dra::ServerField::kKept;
  return request;
}

// The devices of what is offered, each of which the API server must accept, and all together as one pool.
std::map<std::string, dra::DeviceReport> DevicesIn(
    const SysfsTree& tree, const Options& options = {},
    const dra::DiscoverRequest& request = AllKept()) {
  const PciNames names(tree.root());
  std::map<std::string, dra::DeviceReport> devices;
  std::vector<Nic> offered;
  for (const Nic& nic : tree.Look().nics) {
    if (WhyNotOffered(nic, options)) continue;
    offered.push_back(nic);
    devices.emplace(nic.name, DeviceOf(nic, tree.sys(), options, request, &names));
  }
  const std::vector<Json> sets = CounterSetsOf(offered, request);
  std::vector<const Json*> all_devices, all_sets;
  for (const auto& [name, report] : devices) {
    all_devices.push_back(&report.device);
    EXPECT_EQ(dra::resource::JoinFieldErrors(dra::resource::ValidateDevice(report.device, name)),
              "");
    EXPECT_FALSE(report.identity.empty());
  }
  for (const Json& set : sets) {
    all_sets.push_back(&set);
    EXPECT_EQ(dra::resource::JoinFieldErrors(dra::resource::ValidateCounterSet(set, "set")), "");
  }
  EXPECT_EQ(dra::resource::JoinFieldErrors(dra::resource::ValidatePool(all_devices, all_sets)), "");
  return devices;
}

Json Attributes(const std::map<std::string, dra::DeviceReport>& devices, const std::string& name) {
  const auto found = devices.find(name);
  EXPECT_NE(found, devices.end()) << name << " is not offered";
  return found == devices.end() ? Json::object() : found->second.device.at("attributes");
}

Options Including(NicMatch match) {
  Options options;
  options.include = {std::move(match)};
  return options;
}
Options IncludingAll() {
  NicMatch all;
  all.names = {"*"};
  NicMatch pci;
  pci.addresses = {"*"};
  Options options;
  options.include = {all, pci};
  return options;
}

// ---- attributes

TEST(RdmaDevices, HaveDranetsAttributesAndOurs) {
  rdma_simulator::Node first = rdma_simulator::SriovNode();
  first.functions[0].interfaces[0].cidrs = {"192.0.2.7/24", "10.1.0.7/16", "169.254.3.4/16",
                                            "2001:db8::7/64", "fe80::1/64"};
  first.functions[0].interfaces[0].alias = "leaf 3";
  first.pci_ids =
      "# comment\n15b3  Mellanox Technologies\n\t1003  MT27500\n\t\t15b3 0001  wrong\n\t1021  "
      "MT2910 Family [ConnectX-7]\n"
      "\t\t15b3 0001  ConnectX-7 NDR\n1af4  Red Hat\n\t1021  wrong\n";
  SysfsTree tree(first);
  const Json expected = {
      {"resource.kubernetes.io/pciBusID", {{"string", "0000:8d:00.0"}}},
      {"resource.kubernetes.io/pcieRoot", {{"string", "pci0000:8c"}}},
      {"resource.kubernetes.io/numaNode", {{"int", 1}}},
      {"dra.net/ifName", {{"string", "ens1f0np0"}}},
      {"dra.net/rdma", {{"bool", true}}},
      {"dra.net/rdmaDevice", {{"string", "mlx5_0"}}},
      {"dra.net/pciAddress", {{"string", "0000:8d:00.0"}}},
      {"dra.net/numaNode", {{"int", 1}}},
      {"dra.net/type", {{"string", "device"}}},
      {"dra.net/encapsulation", {{"string", "ether"}}},
      {"dra.net/state", {{"string", "up"}}},
      {"dra.net/mac", {{"string", "02:00:5e:00:53:01"}}},
      {"dra.net/mtu", {{"int", 1500}}},
      {"dra.net/ipv4", {{"string", "10.1.0.7/16,192.0.2.7/24"}}},
      {"dra.net/ipv6", {{"string", "2001:db8::7/64"}}},
      {"dra.net/virtual", {{"bool", false}}},
      {"dra.net/sriov", {{"bool", true}}},
      {"dra.net/sriovVfs", {{"int", 4}}},
      {"dra.net/pciVendor", {{"string", "Mellanox Technologies"}}},
      {"dra.net/pciDevice", {{"string", "MT2910 Family [ConnectX-7]"}}},
      {"dra.net/pciSubsystem", {{"string", "ConnectX-7 NDR"}}},
      {"dra.net/alias", {{"string", "leaf 3"}}},
      {"dra.net/linkLayer", {{"string", "ethernet"}}},
      {"dra.net/rateGbps", {{"int", 400}}},
      {"dra.net/kind", {{"string", "physical"}}},
      {"dra.net/vendorID", {{"string", "15b3"}}},
      {"dra.net/deviceID", {{"string", "1021"}}},
      {"dra.net/nodeGuid", {{"string", "9803:9b03:0067:ab50"}}},
      {"dra.net/portGuid", {{"string", "0200:5eff:fe00:5301"}}},
      {"dra.net/driver", {{"string", "mlx5_core"}}},
      {"dra.net/portState", {{"string", "ACTIVE"}}},
      {"dra.net/fwVersion", {{"string", "28.39.1002"}}},
  };
  EXPECT_EQ(expected.size(), 32u);
  EXPECT_EQ(Attributes(DevicesIn(tree), "pci-0000-8d-00-0"), expected);
}

TEST(RdmaDevices, OfAVirtualFunctionNameItsPhysicalOne) {
  SysfsTree tree(rdma_simulator::SriovNode());
  const auto devices = DevicesIn(tree);
  const Json attributes = Attributes(devices, "pci-0000-8d-00-1");
  EXPECT_EQ(attributes["dra.net/isSriovVf"], Json({{"bool", true}}));
  EXPECT_EQ(attributes["dra.net/sriov"], Json({{"bool", false}}));
  EXPECT_FALSE(attributes.contains("dra.net/sriovVfs"));
  EXPECT_EQ(attributes["dra.net/pfPciAddress"], Json({{"string", "0000:8d:00.0"}}));
  EXPECT_EQ(attributes["dra.net/pfName"], Json({{"string", "ens1f0np0"}}));
  EXPECT_EQ(attributes["dra.net/vfIndex"], Json({{"int", 0}}));
  EXPECT_EQ(attributes["dra.net/kind"], Json({{"string", "virtualFunction"}}));
  EXPECT_FALSE(attributes.contains("dra.net/pciVendor")) << "there is no pci.ids";
  EXPECT_FALSE(Attributes(devices, "pci-0000-8d-00-0").contains("dra.net/isSriovVf"));
}

TEST(RdmaDevices, OfInfiniBandHaveItsAddressWhole) {
  SysfsTree tree(rdma_simulator::InfiniBandNode());
  const Json attributes = Attributes(DevicesIn(tree), "pci-0000-18-00-0");
  EXPECT_EQ(attributes["dra.net/encapsulation"], Json({{"string", "infiniband"}}));
  EXPECT_EQ(attributes["dra.net/type"], Json({{"string", "ipoib"}}));
  EXPECT_EQ(attributes["dra.net/mac"],
            Json({{"string", "00:00:10:29:fe:80:00:00:00:00:00:00:98:03:9b:03:00:67:ab:ff"}}));
  EXPECT_EQ(attributes["dra.net/linkLayer"], Json({{"string", "infiniband"}}));
  EXPECT_EQ(attributes["dra.net/nodeGuid"], Json({{"string", "9803:9b03:0067:ab50"}}));
  EXPECT_EQ(attributes["dra.net/portGuid"], Json({{"string", "9803:9b03:0067:abff"}}));
}

TEST(RdmaDevices, WithoutAnInterfaceHaveNoneOfItsAttributes) {
  SysfsTree tree({.functions = {rdma_simulator::Efa()}});
  const Json attributes = Attributes(DevicesIn(tree), "pci-0000-10-1b-0");
  for (const char* name : {"ifName", "mac", "mtu", "state", "type", "encapsulation", "ipv4", "ipv6",
                           "alias", "linkLayer"}) {
    EXPECT_FALSE(attributes.contains(std::string("dra.net/") + name)) << name;
  }
  EXPECT_EQ(attributes["dra.net/rdmaDevice"], Json({{"string", "rdmap16s27"}}));
  EXPECT_EQ(attributes["dra.net/rateGbps"], Json({{"int", 200}}));
}

TEST(RdmaDevices, AreInTheDomainOfTheConfiguration) {
  SysfsTree tree({.functions = {rdma_simulator::BnxtRe()}});
  Options options;
  options.attribute_domain = "net.example.com";
  const Json attributes = Attributes(DevicesIn(tree, options), "pci-0000-41-00-0");
  for (const auto& [name, value] : attributes.items()) {
    EXPECT_TRUE(name.rfind("net.example.com/", 0) == 0 ||
                name.rfind("resource.kubernetes.io/", 0) == 0)
        << name;
  }
}

TEST(RdmaDevices, OfABondAlignWhereItsMembersDo) {
  SysfsTree tree(rdma_simulator::BondNode());
  NicMatch bonds;
  bonds.kinds = {"bond"};
  const auto devices = DevicesIn(tree, Including(bonds));
  const Json attributes = Attributes(devices, "net-bond0");
  EXPECT_EQ(attributes["resource.kubernetes.io/pcieRoot"], Json({{"string", "pci0000:3a"}}));
  EXPECT_EQ(attributes["resource.kubernetes.io/numaNode"], Json({{"int", 0}}));
  EXPECT_EQ(attributes["dra.net/numaNode"], Json({{"int", 0}}));
  EXPECT_FALSE(attributes.contains("resource.kubernetes.io/pciBusID"));
  EXPECT_EQ(attributes["dra.net/virtual"], Json({{"bool", true}}));
  EXPECT_EQ(attributes["dra.net/type"], Json({{"string", "bond"}}));
  EXPECT_EQ(attributes["dra.net/rdmaDevice"], Json({{"string", "mlx5_bond_0"}}));
  EXPECT_EQ(attributes["dra.net/memberPciAddresses"],
            Json({{"string", "0000:3b:00.0,0000:3b:00.1"}}));
  EXPECT_FALSE(attributes.contains("dra.net/pciAddress"));
  tree.node.functions[1].root = "pci0000:5d";
  tree.node.functions[1].numa_node = -1;
  tree.Write();
  const Json apart = Attributes(DevicesIn(tree, Including(bonds)), "net-bond0");
  EXPECT_FALSE(apart.contains("resource.kubernetes.io/pcieRoot"));
  EXPECT_FALSE(apart.contains("resource.kubernetes.io/numaNode"));
}

// INV-07: a list that is cut is a wrong list.
TEST(RdmaDevices, LeaveOutAddressesThatDoNotFit) {
  SysfsTree tree({.functions = {rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2)}});
  std::vector<std::string>& cidrs = tree.node.functions[0].interfaces[0].cidrs;
  // Each 15 bytes and a comma.
  for (int i = 0; i < 4; ++i) cidrs.push_back("192.0.20.10" + std::to_string(i) + "/24");
  cidrs[0] = "192.0.200.100/24";
  cidrs.push_back("2001:db8::7/64");
  tree.Write();
  const Json most = Attributes(DevicesIn(tree), "pci-0000-01-00-0");
  EXPECT_EQ(most["dra.net/ipv4"]["string"].get<std::string>().size(), 64u);
  cidrs[1] = "192.0.200.101/24";
  tree.Write();
  const Json over = Attributes(DevicesIn(tree), "pci-0000-01-00-0");
  EXPECT_FALSE(over.contains("dra.net/ipv4"));
  EXPECT_EQ(over["dra.net/ipv6"], Json({{"string", "2001:db8::7/64"}}))
      << "the others are untouched";
  EXPECT_TRUE(over.contains("dra.net/mac"));
}

TEST(RdmaDevices, HaveOnlyGlobalAddresses) {
  SysfsTree tree({.functions = {rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2)}});
  tree.node.functions[0].interfaces[0].cidrs = {
      "127.0.0.5/8",    "0.0.0.0/8",  "224.0.0.1/32", "255.255.255.255/32",
      "169.254.1.1/16", "::1/128",    "ff02::1/128",  "fe80::2/64",
      "100.64.0.1/10",  "fd00::1/64", "nonsense"};
  tree.Write();
  const Json attributes = Attributes(DevicesIn(tree), "pci-0000-01-00-0");
  EXPECT_EQ(attributes["dra.net/ipv4"], Json({{"string", "100.64.0.1/10"}}));
  EXPECT_EQ(attributes["dra.net/ipv6"], Json({{"string", "fd00::1/64"}}));
}

// INV-08
TEST(RdmaDevices, CutNamesOfCardsAtACharactersEnd) {
  rdma_simulator::Node first;
  first.functions = {rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2), rdma_simulator::BnxtRe()};
  std::string umlauts = "x";
  for (int i = 0; i < 40; ++i) umlauts += "\xc3\x84";
  first.pci_ids = "14e4  \xff\xfe\n8086  " + umlauts + "\n\t1521  " + std::string(64, 'd') + "\n";
  SysfsTree tree(first);
  const auto devices = DevicesIn(tree);
  const Json attributes = Attributes(devices, "pci-0000-01-00-0");
  EXPECT_EQ(attributes["dra.net/pciVendor"]["string"], umlauts.substr(0, 63));
  EXPECT_EQ(attributes["dra.net/pciDevice"]["string"], std::string(64, 'd'));
  EXPECT_FALSE(attributes.contains("dra.net/pciSubsystem"));
  EXPECT_FALSE(Attributes(devices, "pci-0000-41-00-0").contains("dra.net/pciVendor")) << "no UTF-8";
}

TEST(RdmaDevices, TakeNamesOfCardsFromEitherPlaceAndRememberThem) {
  SysfsTree tree({.functions = {rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2)},
                  .pci_ids = "8086  Intel\n"});
  std::filesystem::create_directories(tree.root() + "/usr/share/hwdata");
  std::filesystem::rename(tree.root() + "/usr/share/misc/pci.ids",
                          tree.root() + "/usr/share/hwdata/pci.ids");
  const PciNames names(tree.root());
  EXPECT_EQ(names.Of("0x8086", "0x1521", "", "").vendor, "Intel");
  tree.Remove("usr");
  EXPECT_EQ(names.Of("0x8086", "0x1521", "", "").vendor, "Intel");
  EXPECT_EQ(names.Of("0x8086", "0x1522", "", "").vendor, "");
}

TEST(RdmaDevices, SurviveTextsThatAreNone) {
  SysfsTree tree({.functions = {rdma_simulator::BnxtRe()}});
  rdma_simulator::Interface& interface = tree.node.functions[0].interfaces[0];
  interface.name = "n\xff";
  interface.alias = std::string(100, 'a') + "\xff";
  tree.node.functions[0].rdma[0].firmware = std::string(200, 'f');
  tree.node.functions[0].rdma[0].board_id = "\xff";
  tree.Write();
  const Json attributes = Attributes(DevicesIn(tree), "pci-0000-41-00-0");
  EXPECT_FALSE(attributes.contains("dra.net/ifName"));
  EXPECT_FALSE(attributes.contains("dra.net/alias"));
  EXPECT_FALSE(attributes.contains("dra.net/boardID"));
  EXPECT_EQ(attributes["dra.net/fwVersion"]["string"], std::string(64, 'f'));
}

// Random values in all places: each device is one that the API server accepts (DevicesIn checks).
TEST(RdmaDevices, AreValidWhateverTheKernelSays) {
  std::mt19937 random(11);
  const auto text = [&](size_t most, bool file) {
    std::string result;
    for (size_t n = random() % (most + 1); n > 0; --n) {
      char c = static_cast<char>(random() % 3 == 0 ? random() % 256 : 'a' + random() % 26);
      if (c == '\0' || c == '\n' || (file && c == '/')) c = '_';
      result += c;
    }
    return result;
  };
  for (int i = 0; i < 20; ++i) {
    rdma_simulator::Node first = rdma_simulator::SriovNode();
    first.functions.resize(2);
    for (rdma_simulator::Function& function : first.functions) {
      for (rdma_simulator::Interface& interface : function.interfaces) {
        interface.name = "x" + text(14, true) + std::to_string(interface.index);
        interface.address = text(80, false);
        interface.alias = text(255, false);
        interface.state = text(80, false);
        interface.kind = text(80, false);
        interface.type = static_cast<uint16_t>(random());
        interface.mtu = static_cast<uint32_t>(random());
        interface.physical_switch_id = text(100, false);
        for (size_t n = random() % 20; n > 0; --n)
          interface.cidrs.push_back("10.0.0." + std::to_string(n) + "/8");
      }
      for (rdma_simulator::RdmaDevice& rdma : function.rdma) {
        rdma.firmware = text(100, false);
        rdma.board_id = text(100, false);
        rdma.hca_type = text(100, false);
        rdma.node_guid = text(100, false) + "1";
        rdma.node_type = "9: " + text(100, false) + "x";
        rdma.ports[0].state = text(100, false);
        rdma.ports[0].gids[0].gid = text(100, false);
        rdma.ports[0].rate = text(100, false);
      }
    }
    SysfsTree tree(first);
    Options options;
    if (i % 2 == 0) options.shared = {{{}, 7}};
    EXPECT_GE(DevicesIn(tree, options).size(), 1u);
  }
}

TEST(RdmaDevices, DescribeEveryAttributeWithItsType) {
  std::map<std::string, std::string> types;
  std::set<std::string> changing;
  for (const auto& attribute : DescribeAttributes()) {
    EXPECT_TRUE(types.emplace(attribute.name, attribute.type).second) << attribute.name << " twice";
    EXPECT_FALSE(attribute.description.empty());
    if (attribute.is_volatile) changing.insert(attribute.name);
  }
  EXPECT_THAT(changing, UnorderedElementsAre("state", "ipv4", "ipv6", "sriovVfs", "rateGbps",
                                             "portState", "physState"));
  const rdma_simulator::Node nodes[] = {rdma_simulator::SriovNode(),
                                        rdma_simulator::InfiniBandNode(),
                                        rdma_simulator::TwoPortNode(), rdma_simulator::BondNode()};
  for (const rdma_simulator::Node& node : nodes) {
    SysfsTree tree(node);
    for (const auto& [name, report] : DevicesIn(tree, IncludingAll())) {
      for (const auto& [key, value] : report.device["attributes"].items()) {
        if (key.rfind("resource.kubernetes.io/", 0) == 0) continue;
        const auto type = types.find(key.substr(std::string("dra.net/").size()));
        ASSERT_NE(type, types.end()) << key;
        EXPECT_TRUE(value.contains(type->second)) << name << " " << key << ": " << value;
      }
    }
  }
}

// ---- exclusion

using Keys = std::vector<std::pair<std::string, std::string>>;

TEST(RdmaExclusion, IsBetweenAPhysicalFunctionAndItsVirtualOnes) {
  SysfsTree tree(rdma_simulator::SriovNode());
  const auto devices = DevicesIn(tree);
  EXPECT_EQ(devices.at("pci-0000-8d-00-0").exclusion_keys, (Keys{{"0000:8d:00.0", "pf"}}));
  EXPECT_EQ(devices.at("pci-0000-8d-00-1").exclusion_keys,
            (Keys{{"0000:8d:00.1", "function"}, {"0000:8d:00.0", "part"}}));
}

TEST(RdmaExclusion, IsNotBetweenPortsOfOneFunction) {
  SysfsTree tree(rdma_simulator::TwoPortNode());
  const auto devices = DevicesIn(tree);
  EXPECT_EQ(devices.at("pci-0000-05-00-0").exclusion_keys, (Keys{{"0000:05:00.0", "function"}}));
  EXPECT_EQ(devices.at("pci-0000-05-00-0-p1").exclusion_keys, (Keys{{"0000:05:00.0", "function"}}));
}

TEST(RdmaExclusion, IsBetweenAVirtualInterfaceAndWhatItLiesOn) {
  SysfsTree tree(rdma_simulator::BondNode());
  tree.node.functions.push_back(rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2));
  rdma_simulator::Interface vlan = rdma_simulator::Ethernet("eth0.100", 3);
  vlan.kind = "vlan";
  vlan.parent = "eth0";
  tree.node.virtual_interfaces.push_back(vlan);
  tree.Write();
  const auto devices = DevicesIn(tree, IncludingAll());
  EXPECT_EQ(devices.at("net-bond0").exclusion_keys,
            (Keys{{"net:bond0", "interface"}, {"0000:3b:00.0", "bond"}, {"0000:3b:00.1", "bond"}}));
  EXPECT_EQ(devices.at(VirtualNicName("eth0.100")).exclusion_keys,
            (Keys{{"net:eth0.100", "interface"}, {"0000:01:00.0", "part"}}));
}

// As the SDK does: one key in two shapes.
bool ExcludeEachOther(const dra::DeviceReport& one, const dra::DeviceReport& other) {
  for (const auto& [key, shape] : one.exclusion_keys) {
    for (const auto& [other_key, other_shape] : other.exclusion_keys) {
      if (key == other_key && shape != other_shape) return true;
    }
  }
  return false;
}

TEST(RdmaExclusion, IsBetweenAPhysicalFunctionAndWhatLiesOnItsVirtualOnes) {
  SysfsTree tree(rdma_simulator::SriovNode());
  for (const int i : {2, 3}) {
    tree.node.functions[i].driver = "mlx5_core";
    tree.node.functions[i].interfaces = {
        rdma_simulator::Ethernet("ens1f0v" + std::to_string(i - 1), 30 + i)};
  }
  const auto interface_of = [&](size_t i) -> rdma_simulator::Interface& {
    return tree.node.functions.at(i).interfaces.at(0);
  };
  rdma_simulator::Interface on_pf = rdma_simulator::Ethernet("onpf", 50);
  on_pf.kind = "vlan";
  on_pf.parent = interface_of(0).name;
  rdma_simulator::Interface on_vf = rdma_simulator::Ethernet("onvf", 51);
  on_vf.kind = "vlan";
  on_vf.parent = interface_of(1).name;
  rdma_simulator::Interface bond = rdma_simulator::Ethernet("bond0", 52);
  bond.kind = "bond";
  interface_of(2).master = interface_of(3).master = "bond0";
  tree.node.virtual_interfaces = {on_pf, on_vf, bond};
  tree.Write();
  Options options = IncludingAll();
  options.attach = AttachBy::kNone;  // the ports of a bond too
  std::map<std::string, dra::DeviceReport> devices;
  for (const Nic& nic : tree.Look().nics)
    devices.emplace(nic.name, DeviceOf(nic, tree.sys(), options, AllKept()));
  const std::string pf = "pci-0000-8d-00-0", vf1 = "pci-0000-8d-00-1", vf2 = "pci-0000-8d-00-2",
                    vf3 = "pci-0000-8d-00-3", vf4 = "pci-0000-8d-00-4";
  const std::set<std::set<std::string>> excluded = {
      {pf, vf1},          {pf, vf2},         {pf, vf3},         {pf, vf4},
      {pf, "net-onpf"},   {pf, "net-onvf"},  {pf, "net-bond0"}, {vf1, "net-onvf"},
      {vf2, "net-bond0"}, {vf3, "net-bond0"}};
  for (const std::string& one : {pf, vf1, vf2, vf3, vf4, std::string("net-onpf"),
                                 std::string("net-onvf"), std::string("net-bond0")}) {
    for (const auto& [other, report] : devices) {
      if (one == other) continue;
      EXPECT_EQ(ExcludeEachOther(devices.at(one), report), excluded.count({one, other}) != 0)
          << one << " " << other;
    }
  }
  EXPECT_EQ(devices.at("net-bond0").exclusion_keys, (Keys{{"net:bond0", "interface"},
                                                          {"0000:8d:00.2", "bond"},
                                                          {"0000:8d:00.3", "bond"},
                                                          {"0000:8d:00.0", "part"}}));
}

TEST(RdmaExclusion, HasEachKeyOnce) {
  SysfsTree tree(rdma_simulator::SriovNode());
  rdma_simulator::Interface bond = rdma_simulator::Ethernet("bond0", 52);
  bond.kind = "bond";
  for (const size_t i : {0, 1}) tree.node.functions.at(i).interfaces.at(0).master = "bond0";
  tree.node.virtual_interfaces = {bond};
  tree.Write();
  EXPECT_EQ(DevicesIn(tree, IncludingAll()).at("net-bond0").exclusion_keys,
            (Keys{{"net:bond0", "interface"}, {"0000:8d:00.0", "bond"}, {"0000:8d:00.1", "bond"}}));
}

// ---- counters

TEST(RdmaCounters, LetThePhysicalFunctionOrItsVirtualOnesBeAllocated) {
  SysfsTree tree(rdma_simulator::SriovNode());
  const NodeNics node = tree.Look();
  const std::vector<Json> sets = CounterSetsOf(node.nics, AllKept());
  EXPECT_EQ(Json(sets), Json::array({{{"name", "pci-0000-8d-00-0"},
                                      {"counters", {{"functions", {{"value", "4"}}}}}}}));
  const auto devices = DevicesIn(tree);
  const auto consumed = [&](const char* name) {
    return devices.at(name).device["consumesCounters"];
  };
  EXPECT_EQ(consumed("pci-0000-8d-00-0"),
            Json::array({{{"counterSet", "pci-0000-8d-00-0"},
                          {"counters", {{"functions", {{"value", "4"}}}}}}}));
  EXPECT_EQ(consumed("pci-0000-8d-00-1"),
            Json::array({{{"counterSet", "pci-0000-8d-00-0"},
                          {"counters", {{"functions", {{"value", "1"}}}}}}}));
}

TEST(RdmaCounters, AreThereForVirtualFunctionsWhosePhysicalOneIsNotOffered) {
  SysfsTree tree(rdma_simulator::SriovNode());
  tree.DefaultRoute("ens1f0np0");
  const auto devices = DevicesIn(tree);  // which checks that each consumed set is there
  EXPECT_EQ(devices.count("pci-0000-8d-00-0"), 0u);
  EXPECT_TRUE(devices.at("pci-0000-8d-00-1").device.contains("consumesCounters"));
}

TEST(RdmaCounters, AreLeftOutWhereTheServerDoesNotKeepThem) {
  SysfsTree tree(rdma_simulator::SriovNode());
  for (const dra::ServerField field : {dra::ServerField::kUnknown, dra::ServerField::kDropped}) {
    dra::DiscoverRequest request;
    request.counters = field;
    EXPECT_THAT(CounterSetsOf(tree.Look().nics, request), IsEmpty());
    for (const auto& [name, report] : DevicesIn(tree, {}, request)) {
      EXPECT_FALSE(report.device.contains("consumesCounters")) << name;
    }
  }
}

TEST(RdmaCounters, AreOfNoUseWithoutVirtualFunctions) {
  SysfsTree tree({.functions = {rdma_simulator::BnxtRe()}});
  tree.node.functions[0].total_vfs = 8;
  tree.Write();
  EXPECT_FALSE(DevicesIn(tree).at("pci-0000-41-00-0").device.contains("consumesCounters"));
  EXPECT_THAT(CounterSetsOf(tree.Look().nics, AllKept()), IsEmpty());
}

// ---- sharing

TEST(RdmaShares, AreCapacities) {
  SysfsTree tree(rdma_simulator::SriovNode());
  Options options;
  NicMatch pf;
  pf.kinds = {"physical"};
  options.shared = {{pf, 3}, {{}, 5}};
  const auto devices = DevicesIn(tree, options);
  const Json& device = devices.at("pci-0000-8d-00-0").device;
  EXPECT_EQ(device["allowMultipleAllocations"], true);
  EXPECT_EQ(device["capacity"],
            Json({{"shares",
                   {{"value", "3"}, {"requestPolicy", {{"default", "1"}, {"validValues", {"1"}}}}}},
                  {"bandwidth",
                   {{"value", "400000M"},
                    {"requestPolicy",
                     {{"default", "133333M"},
                      {"validRange", {{"min", "1M"}, {"step", "1M"}, {"max", "400000M"}}}}}}}}));
  EXPECT_EQ(devices.at("pci-0000-8d-00-1").device["capacity"]["shares"]["value"], "5")
      << "the first rule that matches";
}

TEST(RdmaShares, TakeTheirPlaceAmongTheAttributes) {
  SysfsTree tree(rdma_simulator::SriovNode());
  Options options;
  options.shared = {{{}, 2}};
  const auto devices = DevicesIn(tree, options);
  const Json& device = devices.at("pci-0000-8d-00-1").device;
  EXPECT_LE(device["attributes"].size() + device["capacity"].size(), 32u);
  EXPECT_TRUE(device["attributes"].contains("dra.net/pfPciAddress"));
}

TEST(RdmaShares, HaveNoBandwidthWhileTheLinkIsDown) {
  SysfsTree tree({.functions = {rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2)}});
  tree.node.functions[0].interfaces[0].speed_mbps.reset();
  tree.Write();
  Options options;
  options.shared = {{{}, 2}};
  const auto devices = DevicesIn(tree, options);
  EXPECT_FALSE(devices.at("pci-0000-01-00-0").device["capacity"].contains("bandwidth"));
}

TEST(RdmaShares, AreOneForOneClaimWhereTheServerDoesNotKeepThem) {
  SysfsTree tree({.functions = {rdma_simulator::BnxtRe()}});
  Options options;
  options.shared = {{{}, 2}};
  for (const dra::ServerField field : {dra::ServerField::kUnknown, dra::ServerField::kDropped}) {
    dra::DiscoverRequest request = AllKept();
    request.multiple_allocations = field;
    const auto devices = DevicesIn(tree, options, request);
    EXPECT_FALSE(devices.at("pci-0000-41-00-0").device.contains("allowMultipleAllocations"));
    EXPECT_FALSE(devices.at("pci-0000-41-00-0").device.contains("capacity"));
  }
}

// ---- what is offered

std::map<std::string, std::string> Reasons(const SysfsTree& tree, const Options& options = {}) {
  std::map<std::string, std::string> reasons;
  for (const Nic& nic : tree.Look().nics)
    reasons[nic.name] = WhyNotOffered(nic, options).value_or("offered");
  return reasons;
}

// INV-16
TEST(RdmaSelection, OffersNoFunctionThatNothingCanBeGivenOf) {
  SysfsTree tree(rdma_simulator::SriovNode());
  rdma_simulator::Function bare = rdma_simulator::PlainNic("0000:01:00.0", "eth0", 50);
  bare.interfaces.clear();
  tree.node.functions.push_back(bare);
  tree.Write();
  EXPECT_THAT(
      Reasons(tree),
      UnorderedElementsAre(
          Pair("pci-0000-8d-00-0", "offered"), Pair("pci-0000-8d-00-1", "offered"),
          Pair("pci-0000-8d-00-2",
               HasSubstr("its interface is in another network namespace, and without "
                         "it its RDMA device mlx5_2 has no addresses")),
          Pair("pci-0000-8d-00-3", "no kernel driver is bound to it"),
          Pair("pci-0000-8d-00-4", "it is bound to the driver vfio-pci"),
          Pair("pci-0000-01-00-0", HasSubstr("no interface and no RDMA device on this host"))));
  for (const char* driver :
       {"uio_pci_generic", "igb_uio", "pci-stub", "mlx5_vfio_pci", "xen-pciback"}) {
    tree.node.functions[0].driver = driver;
    tree.Write();
    EXPECT_EQ(Reasons(tree)["pci-0000-8d-00-0"],
              std::string("it is bound to the driver ") + driver);
  }
}

// NET-09: InfiniBand and EFA need no interface.
TEST(RdmaSelection, OffersRdmaWithoutInterfaceWhereItNeedsNone) {
  rdma_simulator::Node first = rdma_simulator::InfiniBandNode();
  first.functions[0].interfaces.clear();
  first.functions.push_back(rdma_simulator::Efa());
  SysfsTree tree(first);
  EXPECT_THAT(Reasons(tree), UnorderedElementsAre(Pair("pci-0000-18-00-0", "offered"),
                                                  Pair("pci-0000-10-1b-0", "offered")));
  tree.Remove("dev/infiniband/rdma_cm");
  EXPECT_THAT(Reasons(tree),
              UnorderedElementsAre(Pair("pci-0000-18-00-0", HasSubstr("rdma_cm is missing")),
                                   Pair("pci-0000-10-1b-0", "offered")));
}

// NET-07
TEST(RdmaSelection, OffersAnInterfaceWhoseRdmaDeviceIsUnusableAsOneWithout) {
  SysfsTree tree({.functions = {rdma_simulator::BnxtRe()}, .rdma_cm = false});
  EXPECT_EQ(Reasons(tree)["pci-0000-41-00-0"], "offered");
  const Json attributes = Attributes(DevicesIn(tree), "pci-0000-41-00-0");
  EXPECT_EQ(attributes["dra.net/rdma"], Json({{"bool", false}}));
  EXPECT_FALSE(attributes.contains("dra.net/rdmaDevice"));
}

TEST(RdmaSelection, KeepsTheDefaultRouteAndPortsOfOthers) {
  SysfsTree tree(rdma_simulator::BondNode());
  tree.node.functions.push_back(rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2));
  tree.Write();
  tree.DefaultRoute("eth0");
  Options options = IncludingAll();
  EXPECT_THAT(Reasons(tree, options),
              UnorderedElementsAre(Pair("net-bond0", "offered"),
                                   Pair("pci-0000-3b-00-0", "it is a port of bond0"),
                                   Pair("pci-0000-3b-00-1", "it is a port of bond0"),
                                   Pair("pci-0000-01-00-0", "the default route leads through it")));
  options.allow_default_route = true;
  EXPECT_EQ(Reasons(tree, options)["pci-0000-01-00-0"], "offered");
  EXPECT_EQ(Reasons(tree, options)["pci-0000-3b-00-0"], "it is a port of bond0");
}

TEST(RdmaSelection, GivesAwayOnlyNodesWhereInterfacesStay) {
  SysfsTree tree({.functions = {rdma_simulator::BnxtRe(),
                                rdma_simulator::PlainNic("0000:01:00.0", "eth0", 2)}});
  tree.DefaultRoute("ens3np0");
  Options options;
  options.attach = AttachBy::kNone;
  EXPECT_EQ(Reasons(tree, options)["pci-0000-41-00-0"], "offered");
  EXPECT_EQ(Reasons(tree, options)["pci-0000-01-00-0"],
            "it has no RDMA device, and \"attach\" is \"none\"");
  tree.Remove("dev/infiniband/uverbs20");
  EXPECT_THAT(Reasons(tree, options)["pci-0000-41-00-0"], HasSubstr("uverbs20 is missing"));
}

TEST(RdmaSelection, FollowsTheRules) {
  rdma_simulator::Node first = rdma_simulator::SriovNode();
  first.functions.resize(2);  // PF and one VF
  first.functions[1].interfaces[0].alternative_names = {"altname"};
  first.functions.push_back(rdma_simulator::PlainNic("0000:01:00.0", "eth0", 50));
  first.functions.push_back(rdma_simulator::InfiniBandNode().functions[0]);
  first.functions.back().rdma = {
      rdma_simulator::Mlx5(7, {rdma_simulator::InfiniBandPort("9803:9b03:0067:abff")})};
  rdma_simulator::Interface veth = rdma_simulator::Ethernet("veth7", 60);
  veth.kind = "veth";
  first.virtual_interfaces = {veth};
  SysfsTree tree(first);
  const std::string pf = "pci-0000-8d-00-0", vf = "pci-0000-8d-00-1", plain = "pci-0000-01-00-0",
                    ib = "pci-0000-18-00-0", net = "net-veth7", child = VirtualNicName("ib0.8001");
  const struct {
    const char* rule;
    std::set<std::string> matching;
  } cases[] = {
      {R"({"names": ["eth0"]})", {plain}},
      {R"({"names": ["eth?", "veth*"]})", {plain, net}},
      {R"({"names": ["alt*"]})", {vf}},
      {R"({"names": ["eth"]})", {}},
      {R"({"names": ["*"]})", {pf, vf, plain, ib, net, child}},
      {R"({"pciAddresses": ["0000:8D:00.*"]})", {pf, vf}},
      {R"({"pciAddresses": ["0000:01:00.0", "*:18:00.0"]})", {plain, ib}},
      {R"({"pfNames": ["ens1*"]})", {vf}},
      {R"({"vendors": ["15b3"]})", {pf, vf, ib}},
      {R"({"vendors": ["0x8086"]})", {plain}},
      {R"({"devices": ["101E"]})", {vf}},
      {R"({"drivers": ["igb"]})", {plain}},
      {R"({"kinds": ["physical"]})", {pf, plain, ib}},
      {R"({"kinds": ["virtualFunction", "veth"]})", {vf, net}},
      {R"({"kinds": ["ipoib"]})", {child}},
      {R"({"linkLayers": ["infiniband"]})", {ib, child}},
      {R"({"linkLayers": ["ethernet"]})", {pf, vf, plain, net}},
      {R"({"rdma": true})", {pf, vf, ib}},
      {R"({"rdma": false})", {plain, net, child}},
      {R"({"vendors": ["15b3"], "linkLayers": ["ethernet"], "kinds": ["physical"]})", {pf}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.rule);
    const Json rule = Json::parse(c.rule);
    std::set<std::string> included, excluded;
    for (const auto& [name, reason] : Reasons(tree, ReadOptions({{"include", {rule}}}))) {
      if (reason == "offered") included.insert(name);
    }
    EXPECT_EQ(included, c.matching);
    for (const auto& [name, reason] : Reasons(tree, ReadOptions({{"exclude", {rule}}}))) {
      if (reason == "excluded by the configuration") excluded.insert(name);
    }
    EXPECT_EQ(excluded, c.matching);
  }
  EXPECT_EQ(Reasons(tree)[net], "not included by the configuration");
  EXPECT_EQ(Reasons(tree)[plain], "offered");
  // Exclusion is the stronger one.
  const Json names = {{"names", {"eth0"}}};
  EXPECT_EQ(Reasons(tree, ReadOptions({{"include", {names}}, {"exclude", {names}}}))[plain],
            "excluded by the configuration");
}

}  // namespace
}  // namespace rdma
